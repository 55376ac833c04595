-- The arrival of the oldest pending item that waits out no back-off. Ids grow with time: one writer at a time gives both.
SELECT created_us FROM items WHERE status = 'pending' COLLATE NOCASE AND due_us IS NULL ORDER BY id LIMIT 1
