-- Ready items as arrivals leave them, with ids and order of arrival from the numbers given.
WITH RECURSIVE series (number) AS (
    SELECT :first UNION ALL SELECT number + 1 FROM series WHERE number < :last
)
INSERT INTO items (
    id, project, type, title, agent_key, policy, priority, position, ticket, sort_key, max_attempts, retry_lane,
    created_us, status, attempt, releases, message_count, delivered, seen, front, reason
)
SELECT
    number, 'default', 'task', CAST(number AS TEXT), :agent, 'queue', 0, 2147483647, number, number, 3, 'yield',
    1, 'pending', 0, 0, 0, 0, 0, 0, 'no_lane'
FROM series;
