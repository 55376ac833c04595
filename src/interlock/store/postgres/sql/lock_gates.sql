-- Nobody claims tasks of these plans until this transaction ends; claims under way have committed. Gives the clock and the
-- number of the first line of history, both after that: so no task starts between the times at which an edit cycle opened and closed.
SELECT interlock.clock_us(), (SELECT offset_us FROM interlock.clock), interlock.next_seq() FROM (
    SELECT count(*) FROM (
        SELECT plan FROM interlock.gates WHERE plan = ANY(%(plans)s::bigint[]) ORDER BY plan FOR NO KEY UPDATE
    ) AS locked
) AS waited
