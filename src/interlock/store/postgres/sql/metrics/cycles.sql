-- How many edit cycles are open, how many ends of tasks their editors owe an answer to, and since when the oldest is; up to a limit.
SELECT count(*), coalesce(sum(last_n - answered_n), 0)::bigint, min(cycle_us) FROM (
    SELECT last_n, answered_n, cycle_us FROM interlock.plans
    WHERE deadline_us IS NOT NULL ORDER BY deadline_us LIMIT (SELECT %(limit)s::integer)
) AS open
