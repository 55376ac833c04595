-- Whoever follows an absorbed item from absorber to absorber comes to one that was not absorbed.
WITH RECURSIVE way AS (
    SELECT id AS first, absorbed_by AS at, 1 AS steps FROM items WHERE status = 'coalesced' OR (status = 'superseded' AND absorbed_by IS NOT NULL)
    UNION ALL
    SELECT w.first, i.absorbed_by, w.steps + 1 FROM way w JOIN items i ON i.id = w.at
    WHERE i.status IN ('coalesced', 'superseded') AND i.absorbed_by IS NOT NULL AND w.steps < 100000
)
SELECT first, max(steps) FROM way LEFT JOIN items i ON i.id = way.at GROUP BY first
HAVING max(steps) >= 100000 OR count(*) FILTER (WHERE i.id IS NULL) > 0
