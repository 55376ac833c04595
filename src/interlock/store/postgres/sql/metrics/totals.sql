-- The numbers of arrivals, of claims and of ended runs since counting began, by decision and outcome.
SELECT metric, value, sum(n)::bigint FROM interlock.metric_counts WHERE metric IN ('arrivals', 'claims', 'runs') GROUP BY metric, value
