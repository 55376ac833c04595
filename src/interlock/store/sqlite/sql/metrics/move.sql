-- The mark moves if it is where it was seen: of two who count the same lines, one does.
UPDATE marks SET seq = :seq WHERE name = 'metrics' AND seq = :seen RETURNING seq
