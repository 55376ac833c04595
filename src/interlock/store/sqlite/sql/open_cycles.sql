-- Plans with an open edit cycle, the earliest deadline first.
SELECT * FROM plans WHERE deadline_us IS NOT NULL ORDER BY deadline_us LIMIT :limit
