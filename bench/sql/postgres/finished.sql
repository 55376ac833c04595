-- Completed items as a first run leaves them.
INSERT INTO interlock.items (
    id, project, type, title, agent_key, policy, priority, position, ticket, sort_key, max_attempts, retry_lane,
    created_us, status, attempt, releases, message_count, delivered, seen, front, first_claimed_us, ended_us, reason
)
SELECT
    number, 'default', 'task', number::text, '', 'queue', 0, 2147483647, number, number, 3, 'yield',
    interlock.clock_us(), 'completed', 1, 0, 0, 0, 0, false, interlock.clock_us(), interlock.clock_us(), 'reported'
FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS number;
