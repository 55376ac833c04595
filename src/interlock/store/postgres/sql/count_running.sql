-- The numbers of an agent's runs: all but edits of plans, and edits of plans.
SELECT count(*) FILTER (WHERE type <> 'plan.edit'), count(*) FILTER (WHERE type = 'plan.edit')
FROM interlock.items WHERE status = 'in_progress' AND run_agent = %(agent)s
