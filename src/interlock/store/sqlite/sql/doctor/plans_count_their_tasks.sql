-- Every plan's counts of tasks and open tasks are correct.
-- mend: This must not happen; keep a copy of the database and report it.
SELECT 'plan ' || p.id FROM plans p
WHERE p.tasks <> (SELECT count(*) FROM tasks t WHERE t.plan = p.id AND t.removed_revision IS NULL)
    OR p.edges <> (SELECT count(*) FROM edges e WHERE e.plan = p.id)
    OR p.open_tasks <> (SELECT count(*) FROM items i WHERE i.plan = p.id
        AND i.status IN ('waiting', 'deferred', 'pending', 'in_progress'))
