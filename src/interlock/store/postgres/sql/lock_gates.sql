-- Let no task of these plans be claimed until this transaction ends, and wait for current claims. Gives the later clock and number
-- of the first event. So no task starts between the times at which an edit cycle opened and closed.
SELECT interlock.clock_us(), (SELECT offset_us FROM interlock.clock), interlock.next_seq() FROM (
    SELECT count(*) FROM (
        SELECT plan FROM interlock.gates WHERE plan = ANY(%(plans)s::bigint[]) ORDER BY plan FOR NO KEY UPDATE
    ) AS locked
) AS waited
