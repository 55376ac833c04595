-- How many runs an agent has, counted under the write lock: all but edits of plans, and those.
SELECT count(*) FILTER (WHERE type <> 'plan.edit'), count(*) FILTER (WHERE type = 'plan.edit')
FROM items WHERE status = 'in_progress' AND due_us IS NOT NULL AND run_agent = ?
