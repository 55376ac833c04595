-- Renew the leases of runs that are still their items' current runs, by number and bits. A cancel request limits the lease to its
-- grace. An external run has no lease. Any other run changes nothing, nor does a read mark above the last message. Rows are locked
-- in order of id, and the clock is read after the wait. An open question has set the lease of a run without a worker to its time-out:
-- a renewal does not shorten it.
WITH wishes AS MATERIALIZED (
    SELECT * FROM unnest((SELECT %(items)s::bigint[]), (SELECT %(runs)s::bigint[]), (SELECT %(bits)s::bigint[]),
        (SELECT %(seens)s::integer[])) AS w(item, run, bits, seen)
    WHERE interlock.expect({schema})
),
locked AS MATERIALIZED (
    SELECT id, run, run_bits FROM interlock.items WHERE id = ANY(ARRAY(SELECT item FROM wishes)) AND run IS NOT NULL
    ORDER BY id FOR NO KEY UPDATE
),
clock AS MATERIALIZED (SELECT coalesce(%(now_us)s, interlock.clock_us()) AS now_us FROM (SELECT count(*) FROM locked) AS waited),
kept AS MATERIALIZED (
    SELECT w.item, w.run, w.seen, clock.now_us
    FROM clock, locked l JOIN wishes w ON w.item = l.id AND w.run = l.run AND w.bits = l.run_bits
)
UPDATE interlock.items i SET
    lease_until_us = CASE WHEN i.lease_until_us IS NOT NULL THEN least(greatest(k.now_us + (i.run_lease_s * 1000000)::bigint,
        CASE WHEN i.reason = 'asked' THEN i.lease_until_us END), i.revoke_us) END,
    due_us = least(greatest(k.now_us + (i.run_lease_s * 1000000)::bigint, CASE WHEN i.reason = 'asked' THEN i.lease_until_us END),
        i.run_started_us + (i.timeout_s * 1000000)::bigint, i.revoke_us),
    seen = CASE WHEN k.seen BETWEEN i.seen AND i.message_count THEN k.seen ELSE i.seen END
FROM kept k
WHERE i.id = ANY(ARRAY(SELECT item FROM kept)) AND i.id = k.item AND i.run = k.run
RETURNING i.*
