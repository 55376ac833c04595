-- No run number exceeds the run counter.
-- mend: interlock migrate --after-restore
SELECT 'run ' || run FROM (
    SELECT max(run) AS run FROM interlock.runs UNION ALL SELECT max(run) FROM interlock.items
) AS used WHERE run > (SELECT last_value FROM interlock.run_numbers)
