-- Every absorbed item names an item that exists.
-- mend: This must not happen; keep a copy of the database and report it.
SELECT 'item ' || i.id FROM items i
WHERE i.status IN ('superseded', 'coalesced')
    AND NOT EXISTS (SELECT 1 FROM items a WHERE a.id = i.absorbed_by)
