-- The mark moves if it is where it was seen: of two who count the same lines, one does. The other waits for it.
UPDATE interlock.marks SET seq = %(seq)s WHERE interlock.expect({schema}) AND name = 'metrics' AND seq = %(seen)s RETURNING seq
