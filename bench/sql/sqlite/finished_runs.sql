-- The run of each completed item.
INSERT INTO runs (run, item, attempt, agent, started_us, ended_us, status, reason)
SELECT id, id, 1, 'worker-0', first_claimed_us, ended_us, 'succeeded', 'reported'
FROM items WHERE status = 'completed' ORDER BY id;
