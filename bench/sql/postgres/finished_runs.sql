-- The run of each completed item.
INSERT INTO interlock.runs (run, item, attempt, agent, started_us, ended_us, status, reason)
SELECT nextval('interlock.run_numbers'), id, 1, 'worker-0', first_claimed_us, ended_us, 'succeeded', 'reported'
FROM interlock.items WHERE status = 'completed' ORDER BY id;
