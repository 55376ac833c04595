-- The messages of an unfinished item are numbered from one to its count.
-- mend: This must not happen; keep a copy of the database and report it.
SELECT 'item ' || i.id FROM items i
WHERE i.status IN ('waiting', 'deferred', 'pending', 'in_progress') AND i.message_count <> (
    SELECT count(*) FROM messages m WHERE m.item = i.id AND m.n BETWEEN 1 AND i.message_count)
