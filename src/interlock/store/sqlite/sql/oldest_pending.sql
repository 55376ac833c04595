-- The arrival of the oldest pending item that is not in a back-off. Ids grow with time, as one writer at a time gives both.
SELECT created_us FROM items WHERE status = 'pending' COLLATE NOCASE AND due_us IS NULL ORDER BY id LIMIT 1
