-- How many runs an agent has: all but edits of plans, and those.
SELECT count(*) FILTER (WHERE type <> 'plan.edit'), count(*) FILTER (WHERE type = 'plan.edit')
FROM interlock.items WHERE status = 'in_progress' AND run_agent = %(agent)s
