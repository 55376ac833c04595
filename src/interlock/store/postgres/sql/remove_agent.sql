-- Delete an agent that has no run, that no unfinished item names and that edits no running plan. Gives it if deleted. An earlier
-- statement has locked its row, so that this one sees a run that a claim under its limit has just started.
DELETE FROM interlock.agents WHERE key = %(agent)s
    AND NOT EXISTS (SELECT FROM interlock.items WHERE status = 'in_progress' AND run_agent = %(agent)s)
    AND NOT EXISTS (SELECT FROM interlock.items
        WHERE status IN ('waiting', 'deferred', 'pending', 'in_progress') AND agent_key = %(agent)s)
    AND NOT EXISTS (SELECT FROM interlock.plans WHERE status = 'running' AND editor = %(agent)s)
RETURNING key
