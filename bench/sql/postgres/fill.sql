-- Adds pending items; their number is in the ticket and in the sort key.
INSERT INTO items (ticket, sort_key, status, title, agent_key)
SELECT number, number, 'pending', 'item ' || number, %(agent_key)s
FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS number;
