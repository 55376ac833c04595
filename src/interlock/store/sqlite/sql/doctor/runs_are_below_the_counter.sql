-- No run number exceeds the run counter.
-- mend: interlock migrate --after-restore
SELECT 'run ' || run FROM (
    SELECT max(run) AS run FROM runs UNION ALL SELECT max(run) FROM items
) WHERE run > (SELECT value FROM numbers WHERE name = 'run')
