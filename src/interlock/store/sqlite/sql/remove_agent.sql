-- Delete an agent that has no run, that no unfinished item names and that edits no running plan. Gives it if deleted.
DELETE FROM agents WHERE key = :agent
    AND NOT EXISTS (SELECT 1 FROM items INDEXED BY items_running WHERE run IS NOT NULL AND run_agent = :agent)
    AND NOT EXISTS (SELECT 1 FROM items
        WHERE status COLLATE NOCASE IN ('waiting', 'deferred', 'pending', 'in_progress') AND agent_key = :agent)
    AND NOT EXISTS (SELECT 1 FROM plans WHERE status = 'running' AND editor = :agent)
RETURNING key
