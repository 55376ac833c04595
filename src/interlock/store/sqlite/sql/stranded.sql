-- The next :limit lanes behind :after that have a line, and whether nobody holds them. Goes from one lane to the next.
WITH RECURSIVE line(lane) AS (
    SELECT min(lane) FROM items WHERE status = 'deferred' AND lane > :after
    UNION ALL
    SELECT (SELECT min(d.lane) FROM items d WHERE d.status = 'deferred' AND d.lane > line.lane)
    FROM line WHERE lane IS NOT NULL
)
SELECT lane, NOT EXISTS (SELECT 1 FROM holders WHERE holders.lane = line.lane)
FROM line WHERE lane IS NOT NULL LIMIT :limit
