-- Items for anyone, for an agent and on lanes that came, were ready, ran past their leases, and ended.
INSERT INTO lanes (lane) SELECT 'old:' || n FROM generate_series(1, {count} / 10) AS n;
INSERT INTO items (id, project, type, title, agent_key, policy, priority, position, ticket, sort_key, lane,
    max_attempts, retry_lane, created_us, status, attempt, releases, message_count, delivered, seen, front, reason)
SELECT nextval('item_ids'), 'default', 'task', 'gone', CASE WHEN n % 2 = 0 THEN 'coder' ELSE '' END, 'queue', 0,
    2147483647, n, n, CASE WHEN n % 10 = 0 THEN 'old:' || n / 10 END, 3, 'yield', 0,
    CASE WHEN n % 10 = 0 THEN 'deferred' ELSE 'pending' END, 0, 0, 0, 0, 0, false, ''
FROM generate_series(1, {count}) AS n;
UPDATE items SET status = 'pending' WHERE status = 'deferred';
UPDATE items SET status = 'in_progress', run = id, run_bits = 0, run_agent = 'x', due_us = 5, lease_until_us = 5;
UPDATE items SET status = 'completed', run = NULL, run_bits = NULL, run_agent = NULL, due_us = NULL,
    lease_until_us = NULL, ended_us = 6;
DELETE FROM tallies;
INSERT INTO tallies SELECT status, priority, count(*) FROM items GROUP BY status, priority;
