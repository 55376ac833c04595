-- Items numbered from {first} to {last} beside those that are there. Of every hundred, eighty-nine are history with runs and events;
-- the others are all that can be alive: ready for this agent, for others and for anyone, scheduled, running on a lane with
-- somebody behind, deferred behind an owner whose agent nobody has seen, and first in the queue but gated. Leases and schedules lie in
-- the future.
SET search_path = interlock;
INSERT INTO lanes (lane) SELECT 'issue:acme/app#' || n FROM generate_series({first}, {last}) n;
UPDATE lanes SET gate_series = 'series:acme/app/' || n / 1000, gate_open = false, gate_exempt = '{"look"}', gate_us = 0
    FROM generate_series({first}, {last}) n WHERE n % 100 = 89 AND lane = 'issue:acme/app#' || n;
INSERT INTO agents (key, name, max_concurrency) VALUES ('capped', 'capped', 100000), ('busy', 'busy', 1)
    ON CONFLICT DO NOTHING;
INSERT INTO items (id, project, type, title, agent_key, policy, priority, position, ticket, sort_key, lane, labels,
    max_attempts, retry_lane, created_us, status, attempt, releases, due_us, run, run_agent, run_started_us, run_lease_s,
    lease_until_us, message_count, delivered, seen, front, first_claimed_us, ended_us, reason, run_bits, gated)
SELECT n, 'default', 'task', 'item ' || n, CASE WHEN n % 100 IN (90, 91, 98) THEN 'other' WHEN n % 100 = 95 THEN 'coder' ELSE '' END,
    'queue', n % 3, 2147483647, n, CASE WHEN n % 100 = 89 THEN -4000000000000 ELSE ((n % 3) * -1000000000000::bigint) END + n,
    CASE WHEN n % 100 IN (89, 96, 98) THEN 'issue:acme/app#' || n WHEN n % 100 = 97 THEN 'issue:acme/app#' || n - 1
        WHEN n % 100 = 99 THEN 'issue:acme/app#' || n - 1 END,
    NULL, 3, 'yield', t.us, CASE WHEN n % 100 < 88 THEN 'completed' WHEN n % 100 = 88 THEN 'failed'
        WHEN n % 100 = 94 THEN 'waiting' WHEN n % 100 = 96 THEN 'in_progress' WHEN n % 100 IN (97, 99) THEN 'deferred' ELSE 'pending' END,
    CASE WHEN n % 100 < 89 THEN 1 ELSE 0 END, 0, CASE WHEN n % 100 IN (94, 96) THEN t.us + 86400000000 END,
    CASE WHEN n % 100 = 96 THEN nextval('run_numbers') END, CASE WHEN n % 100 = 96 THEN 'runner' || n % 7 END,
    CASE WHEN n % 100 = 96 THEN t.us END, CASE WHEN n % 100 = 96 THEN 86400 END, CASE WHEN n % 100 = 96 THEN t.us + 86400000000 END,
    0, 0, 0, false, CASE WHEN n % 100 < 89 THEN t.us END, CASE WHEN n % 100 < 89 THEN t.us END, '',
    CASE WHEN n % 100 = 96 THEN n END, n % 100 = 89
FROM generate_series({first}, {last}) n, (SELECT clock_us() AS us) t;
INSERT INTO runs SELECT nextval('run_numbers'), id, 1, 'coder', 'w', created_us, created_us, 'succeeded', 'reported'
    FROM items WHERE status = 'completed' AND id >= {first};
INSERT INTO events (seq, at_us, kind, reason, project, item, lane)
    SELECT 3 * id + e, created_us, k.kind, '', 'default', id, lane
    FROM items, (VALUES (0, 'item.added'), (1, 'run.started'), (2, 'run.succeeded')) AS k(e, kind)
    WHERE id >= {first};
INSERT INTO payloads SELECT id, '{"n": 1}' FROM items WHERE id % 2 = 0 AND id >= {first};
INSERT INTO dedupe_keys SELECT 'default', 'key-' || n, n, clock_us() + 86400000000 FROM generate_series({first}, {last}) n;
INSERT INTO github_repositories VALUES (1, 'acme/app', 'acme/app') ON CONFLICT DO NOTHING;
INSERT INTO github_deliveries SELECT 'old-' || n, 'issues', 1, n, n, NULL, 0, '', NULL FROM generate_series({first}, {last}) n;
INSERT INTO github_numbers SELECT 1, n, 1, '{}', '{}', n, 1000000000 FROM generate_series({first}, {last}) n;
INSERT INTO github_consequences
    SELECT 1, CASE WHEN n % 2 = 0 THEN 1 ELSE n END, n, 'old-' || n, '{}', NULL, n, 0, n, '' FROM generate_series({first}, {last}) n;
INSERT INTO github_outboxes SELECT 1, n, 1000000000, NULL, NULL FROM generate_series({first}, {last}) n;
INSERT INTO github_effects
    SELECT 1, CASE WHEN n % 2 = 0 THEN 1 ELSE n END, n, 'old-' || n, 'comment', CASE WHEN n % 2 = 0 THEN 'sticky' ELSE '' END, '{}', NULL, n,
        NULL, 0, n, n, n, NULL, '' FROM generate_series({first}, {last}) n;
INSERT INTO github_answers SELECT 'old-' || n, '', NULL, '', n FROM generate_series({first}, {last}) n WHERE n % 20 = 0;
INSERT INTO github_heads
    SELECT 1, n, '', 1, 'head-' || n, 'fix', '', CASE WHEN n % 20 = 0 THEN 'open' ELSE 'merged' END, 'success', '', true, n, n, n
    FROM generate_series({first}, {last}) n;
INSERT INTO github_heads SELECT 1, 0, 'sha-' || n, 1, 'sha-' || n, 'main', '', NULL, 'failure', '', true, n, n, n FROM generate_series({first}, {last}) n;
INSERT INTO github_links SELECT n, 1, n, '', n, 'branch', n FROM generate_series({first}, {last}) n;
INSERT INTO github_links SELECT n, 1, 0, 'sha-' || n, n, 'trailer', n FROM generate_series({first}, {last}) n;
INSERT INTO github_workflow_runs
    SELECT 1, n, 'head-' || n, 1, 'ci', 'completed', 'success', '', '', n, '[]', n FROM generate_series({first}, {last}) n;
INSERT INTO series_notes SELECT 'series:old/' || n, 1, '{}' FROM generate_series({first}, {last}) n WHERE n % 20 = 0;
INSERT INTO tokens SELECT 'old-' || n, 'old', 'read', repeat('0', 64), n, n, n, n FROM generate_series({first}, {last}) n WHERE n % 20 = 0;
INSERT INTO requests SELECT 'old-' || n, '', '{}', clock_us() FROM generate_series({first}, {last}) n;
DELETE FROM tallies;
INSERT INTO tallies SELECT status, priority, count(*) FROM items GROUP BY status, priority;
SELECT setval('item_ids', {last}), setval('tickets', {last}), setval('event_numbers', (3 * {last}::bigint >> 16) + 1);
