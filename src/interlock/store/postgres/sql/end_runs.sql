-- End runs with their items as decided before the lock, if each is still its item's current run and no column that the decision
-- depends on has changed: see `core.early_ends`. Otherwise nothing is written and no row returned. Changes by a renewal do not
-- matter. Rows are locked in order of id. The clock and the event numbers are read after the wait. A claim that follows in the same
-- transaction is told by a setting.
WITH locked AS MATERIALIZED (
    SELECT id, project, priority, status, attempt, run, run_bits, run_agent, run_worker, run_started_us, message_count
    FROM interlock.items
    WHERE id = ANY((SELECT %(items)s::bigint[])::bigint[]) AND run IS NOT NULL AND cancel_into IS NULL AND NOT blocked
    ORDER BY id FOR NO KEY UPDATE
),
unchanged AS MATERIALIZED (
    SELECT l.*, known.result, known.error, known.place FROM locked l JOIN unnest((SELECT %(items)s::bigint[]), %(runs)s::bigint[],
        %(bits)s::bigint[], %(message_counts)s::integer[], %(results)s::text[], %(errors)s::text[]
    ) WITH ORDINALITY AS known(item, run, bits, message_count, result, error, place)
        ON l.id = known.item AND l.run = known.run AND l.run_bits = known.bits AND l.message_count = known.message_count
),
clock AS MATERIALIZED (
    SELECT coalesce(%(now_us)s::bigint, interlock.clock_us()) AS now_us, interlock.next_seq() AS seq
    FROM (SELECT count(*) AS n FROM unchanged) AS found
    WHERE found.n = cardinality((SELECT %(items)s::bigint[])) AND interlock.expect({schema})
),
ended AS (
    UPDATE interlock.items AS i SET
        status = %(status)s, releases = 0, due_us = NULL, run = NULL, run_bits = NULL, run_agent = NULL, run_worker = NULL,
        run_started_us = NULL, run_lease_s = NULL, lease_until_us = NULL, revoke_us = NULL, cancel_why = NULL, absorbed_by = NULL,
        front = false, promoted_from = NULL, ended_us = clock.now_us, reason = %(reason)s, claim_by_us = NULL, last_agent = i.run_agent
    FROM clock
    WHERE i.id = ANY(ARRAY(SELECT id FROM unchanged))
),
recorded AS (
    INSERT INTO interlock.runs (run, item, attempt, agent, worker, started_us, ended_us, status, reason, result, error, bits)
    SELECT run, id, attempt, run_agent, run_worker, run_started_us, clock.now_us, %(run_status)s, %(run_reason)s, result, error, run_bits
    FROM clock, unchanged
),
counted AS (
    INSERT INTO interlock.tally_changes (was, status, priority, n)
    SELECT u.status, %(status)s, u.priority, count(*) FROM clock, unchanged u GROUP BY u.status, u.priority
),
logged AS (
    INSERT INTO interlock.events (seq, at_us, kind, reason, project, item, run, agent, span_us)
    SELECT clock.seq + place - 1, clock.now_us, %(kind)s, %(run_reason)s, project, id, run, run_agent, clock.now_us - run_started_us
    FROM clock, unchanged
)
SELECT now_us, CASE WHEN %(is_followed)s THEN set_config('interlock.ended', 'yes', true) END FROM clock
