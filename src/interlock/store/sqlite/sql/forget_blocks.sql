-- Delete some blocks of items that have ended or are gone.
DELETE FROM blocks WHERE lane = '' AND item IN (
    SELECT b.item FROM blocks AS b INDEXED BY blocks_item WHERE b.item <> 0 AND NOT EXISTS (
        SELECT 1 FROM items AS i WHERE i.id = b.item AND i.ended_us IS NULL) LIMIT :limit)
