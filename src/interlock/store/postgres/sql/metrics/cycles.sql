-- The number of open edit cycles, the number of ended tasks that wait for an editor's answer, and the start of the oldest cycle; up to a limit.
SELECT count(*), coalesce(sum(last_n - answered_n), 0)::bigint, min(cycle_us) FROM (
    SELECT last_n, answered_n, cycle_us FROM interlock.plans
    WHERE deadline_us IS NOT NULL ORDER BY deadline_us LIMIT (SELECT %(limit)s::integer)
) AS open
