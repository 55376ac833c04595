-- The item that keeps a lane from opening: its owner, or the oldest that started while the lane was only observed.
SELECT * FROM items WHERE id = (SELECT item FROM holders WHERE lane = :lane ORDER BY observed, item LIMIT 1)
