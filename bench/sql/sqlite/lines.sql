-- Lanes of somebody else, each with a ready owner and one item that waits behind it: two items a lane.
WITH RECURSIVE series (number) AS (
    SELECT :first UNION ALL SELECT number + 2 FROM series WHERE number + 2 <= :last
),
line (behind, status, reason) AS (VALUES (0, 'pending', 'lane_free'), (1, 'deferred', 'lane_busy'))
INSERT INTO items (
    id, project, type, title, agent_key, policy, priority, position, ticket, sort_key, lane, max_attempts, retry_lane,
    created_us, status, attempt, releases, message_count, delivered, seen, front, reason
)
SELECT
    number + behind, 'default', 'task', CAST(number + behind AS TEXT), 'somebody-else', 'queue', 0, 2147483647,
    number + behind, number + behind, 'line:' || number, 3, 'yield', 1, status, 0, 0, 0, 0, 0, 0, reason
FROM series CROSS JOIN line;
