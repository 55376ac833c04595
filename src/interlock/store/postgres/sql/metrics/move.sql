-- Move the mark if it is unmoved: if two processes count the same events, one moves it, and the other waits.
UPDATE interlock.marks SET seq = %(seq)s WHERE interlock.expect({schema}) AND name = 'metrics' AND seq = %(seen)s RETURNING seq
