-- Items that need a label which nobody has, before all others in the queue, with their lines of history.
WITH numbered AS MATERIALIZED (
    SELECT nextval('item_ids') AS id, nextval('tickets') AS ticket, clock_us() AS now_us FROM generate_series(1, {count})
),
added AS (
    INSERT INTO items (id, project, type, title, agent_key, policy, priority, position, ticket, sort_key, labels, max_attempts,
        retry_lane, created_us, status, attempt, releases, message_count, delivered, seen, front, reason)
    SELECT id, 'default', 'task', '{title}', '', 'queue', 9, 2147483647, ticket, ticket - (1::bigint << 60), ARRAY['rare'], 3,
        'yield', now_us, 'pending', 0, 0, 0, 0, 0, false, '' FROM numbered
),
tallied AS (INSERT INTO tally_changes VALUES ('pending', 9, {count}))
INSERT INTO events (seq, at_us, kind, reason, project, item, data)
SELECT first.seq + row_number() OVER (), now_us, 'item.added', '', 'default', id, '{"status":"pending"}'
FROM numbered, (SELECT next_seq() AS seq) AS first
