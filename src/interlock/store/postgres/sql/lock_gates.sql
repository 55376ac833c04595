-- Nobody claims tasks of these plans until this transaction ends, and whoever was about to has done so; and the clock,
-- read after that: so no start of a task lies between the times at which an edit cycle opened and closed.
SELECT interlock.now_us() FROM (
    SELECT plan FROM interlock.gates WHERE plan = ANY(%(plans)s::bigint[]) ORDER BY plan FOR NO KEY UPDATE
) AS locked
