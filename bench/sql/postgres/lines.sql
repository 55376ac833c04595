-- Lanes of somebody else, each with a ready owner and one item that waits behind it: two items a lane.
INSERT INTO interlock.items (
    id, project, type, title, agent_key, policy, priority, position, ticket, sort_key, lane, max_attempts, retry_lane,
    created_us, status, attempt, releases, message_count, delivered, seen, front, reason
)
SELECT
    number + behind, 'default', 'task', (number + behind)::text, 'somebody-else', 'queue', 0, 2147483647, number + behind,
    number + behind, 'line:' || number, 3, 'yield', interlock.clock_us(), line.status, 0, 0, 0, 0, 0, false, line.reason
FROM generate_series(%(first)s::bigint, %(last)s::bigint, 2) AS number
CROSS JOIN (VALUES (0, 'pending', 'lane_free'), (1, 'deferred', 'lane_busy')) AS line (behind, status, reason);
