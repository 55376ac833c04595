-- End one run with its item as decided before the lock: as `end_runs` does for several. The clock and the event number are read
-- after the wait; nobody corrects the clock while items may be locked. A claim that follows in the same transaction is told by a setting.
WITH unchanged AS MATERIALIZED (
    SELECT l.*, coalesce(%(now_us)s::bigint, interlock.clock_us((SELECT offset_us FROM interlock.clock))) AS now_us, interlock.next_seq() AS seq
    FROM (
        SELECT id, project, priority, status, attempt, run, run_bits, run_agent, run_worker, run_started_us
        FROM interlock.items
        WHERE id = %(item)s::bigint AND run = %(run)s::bigint AND run_bits = %(bits)s::bigint AND message_count = %(message_count)s::integer
            AND cancel_into IS NULL AND NOT blocked AND interlock.expect({schema})
        FOR NO KEY UPDATE
    ) AS l
),
recorded AS (
    INSERT INTO interlock.runs (run, item, attempt, agent, worker, started_us, ended_us, status, reason, result, error, bits)
    SELECT run, id, attempt, run_agent, run_worker, run_started_us, now_us, %(run_status)s, %(run_reason)s, %(result)s, %(error)s, run_bits
    FROM unchanged
),
counted AS (
    INSERT INTO interlock.tally_changes (was, status, priority, n) SELECT status, %(status)s, priority, 1 FROM unchanged
),
logged AS (
    INSERT INTO interlock.events (seq, at_us, kind, reason, project, item, run, agent, span_us)
    SELECT seq, now_us, %(kind)s, %(run_reason)s, project, id, run, run_agent, now_us - run_started_us FROM unchanged
)
UPDATE interlock.items AS i SET
    status = %(status)s, releases = 0, due_us = NULL, run = NULL, run_bits = NULL, run_agent = NULL, run_worker = NULL,
    run_started_us = NULL, run_lease_s = NULL, lease_until_us = NULL, revoke_us = NULL, cancel_why = NULL, absorbed_by = NULL,
    front = false, promoted_from = NULL, ended_us = u.now_us, reason = %(reason)s, claim_by_us = NULL, last_agent = i.run_agent
FROM unchanged u
WHERE i.id = u.id
RETURNING i.ended_us, CASE WHEN %(is_followed)s THEN set_config('interlock.ended', 'yes', true) END
