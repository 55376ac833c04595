-- How many items there are by status and priority.
SELECT status, priority, sum(n)::bigint FROM (
    SELECT status, priority, n FROM interlock.tallies UNION ALL SELECT status, priority, n FROM interlock.tally_changes
) AS counted
GROUP BY status, priority
