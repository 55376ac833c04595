-- Move the mark if it is unmoved: if two processes count the same events, one moves it.
UPDATE marks SET seq = :seq WHERE name = 'metrics' AND seq = :seen RETURNING seq
