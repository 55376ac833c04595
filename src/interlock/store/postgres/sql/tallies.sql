-- The numbers of items by status and priority.
SELECT status, priority, sum(n)::bigint FROM interlock.tallied GROUP BY status, priority
