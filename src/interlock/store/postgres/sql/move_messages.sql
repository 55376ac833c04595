-- Messages keep their order and their origin when they go to another item.
UPDATE interlock.messages SET item = %(target)s, n = n + %(shift)s WHERE item = %(source)s AND n > %(after)s
