-- Adds pending items; their number is in the ticket and in the sort key.
WITH RECURSIVE numbers (number) AS (
    SELECT :first UNION ALL SELECT number + 1 FROM numbers WHERE number < :last
)
INSERT INTO items (ticket, sort_key, status, title, agent_key)
SELECT number, number, 'pending', 'item ' || number, :agent_key FROM numbers;
