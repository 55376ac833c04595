-- How many runs an agent has.
SELECT count(*) FROM interlock.items WHERE status = 'in_progress' AND due_us IS NOT NULL AND run_agent = %(agent)s
