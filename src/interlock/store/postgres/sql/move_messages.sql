-- Move messages to another item. They keep their order and their origin.
UPDATE interlock.messages SET item = %(target)s, n = n + %(shift)s WHERE item = %(source)s AND n > %(after)s
