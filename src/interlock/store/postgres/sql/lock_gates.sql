-- Nobody claims tasks of these plans until this transaction ends; claims under way have committed. Gives the clock, read after
-- that: so no task starts between the times at which an edit cycle opened and closed.
SELECT interlock.clock_us() FROM (
    SELECT plan FROM interlock.gates WHERE plan = ANY(%(plans)s::bigint[]) ORDER BY plan FOR NO KEY UPDATE
) AS locked
