-- The numbers of an agent's runs: all but edits of plans, and edits of plans.
SELECT count(*) FILTER (WHERE type <> 'plan.edit'), count(*) FILTER (WHERE type = 'plan.edit')
FROM items INDEXED BY items_running WHERE run IS NOT NULL AND run_agent = :agent
