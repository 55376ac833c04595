-- Every task waiting without a time has an unfinished predecessor or an editor that can still save it.
-- mend: This must not happen; cancel the task and retry it, keep a copy of the database and report it.
SELECT 'task ' || t.key || ' of plan ' || t.plan FROM interlock.tasks t JOIN interlock.items i ON i.id = t.item
WHERE i.status = 'waiting' AND i.due_us IS NULL AND t.unmet = 0 AND NOT t.doomed
