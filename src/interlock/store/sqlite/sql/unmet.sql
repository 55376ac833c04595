-- The keys of the tasks that a task waits for, up to :limit.
SELECT t.key FROM edges e JOIN tasks t ON t.item = e.source
WHERE e.target = :item AND e.state <> 'satisfied' ORDER BY t.item LIMIT :limit
