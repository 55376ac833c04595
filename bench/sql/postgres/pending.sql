-- Ready items as arrivals leave them, with ids and order of arrival from the numbers given.
INSERT INTO interlock.items (
    id, project, type, title, agent_key, policy, priority, position, ticket, sort_key, max_attempts, retry_lane,
    created_us, status, attempt, releases, message_count, delivered, seen, front, reason
)
SELECT
    number, 'default', 'task', number::text, %(agent)s, 'queue', 0, 2147483647, number, number, 3, 'yield',
    interlock.clock_us(), 'pending', 0, 0, 0, 0, 0, false, 'no_lane'
FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS number;
