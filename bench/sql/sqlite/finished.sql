-- Completed items as a first run leaves them.
WITH RECURSIVE series (number) AS (
    SELECT :first UNION ALL SELECT number + 1 FROM series WHERE number < :last
)
INSERT INTO items (
    id, project, type, title, agent_key, policy, priority, position, ticket, sort_key, max_attempts, retry_lane,
    created_us, status, attempt, releases, message_count, delivered, seen, front, first_claimed_us, ended_us, reason
)
SELECT
    number, 'default', 'task', CAST(number AS TEXT), '', 'queue', 0, 2147483647, number, number, 3, 'yield',
    1, 'completed', 1, 0, 0, 0, 0, 0, 2, 3, 'reported'
FROM series;
