-- Every task's counts of open and broken edges are correct.
-- mend: This must not happen; keep a copy of the database and report it.
SELECT 'task ' || t.key || ' of plan ' || t.plan FROM tasks t WHERE t.removed_revision IS NULL AND (
    t.unmet <> (SELECT count(*) FROM edges e WHERE e.target = t.item AND e.state = 'open')
    OR t.broken <> (SELECT count(*) FROM edges e WHERE e.target = t.item AND e.state = 'broken'))
