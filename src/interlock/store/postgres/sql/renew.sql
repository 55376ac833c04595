-- Runs that are still their items' current runs keep their leases for another span; under a cancel request they
-- do not pass the grace. Any other run changes nothing. Rows are locked in order of id, and the clock is read
-- after the wait.
WITH locked AS MATERIALIZED (
    SELECT i.id, w.run, w.seen
    FROM unnest(%(items)s::bigint[], %(runs)s::bigint[], %(seens)s::integer[]) AS w(item, run, seen)
    JOIN interlock.items i ON i.id = w.item
    WHERE i.run = w.run
    ORDER BY i.id
    FOR NO KEY UPDATE OF i
)
UPDATE interlock.items i SET
    lease_until_us = least(clock.now_us + (i.run_lease_s * 1000000)::bigint, i.revoke_us),
    due_us = least(clock.now_us + (i.run_lease_s * 1000000)::bigint,
        i.run_started_us + (i.timeout_s * 1000000)::bigint, i.revoke_us),
    seen = greatest(i.seen, least(locked.seen, i.message_count))
FROM locked CROSS JOIN LATERAL (
    SELECT coalesce(%(now_us)s, interlock.now_us()) AS now_us WHERE locked.id IS NOT NULL
) AS clock
WHERE i.id = locked.id AND i.run = locked.run
RETURNING i.*
