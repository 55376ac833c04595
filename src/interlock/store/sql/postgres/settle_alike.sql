-- What `settle` does with `over` and `unchanged`, for items that end in the same way: their states, their runs and their
-- lines of history differ in nothing but item and run, so all else is said once.
WITH over AS (
    UPDATE interlock.items AS i SET
        status = %(status)s, attempt = %(attempt)s::integer, releases = 0, due_us = NULL, run = NULL, run_agent = NULL,
        run_worker = NULL, run_started_us = NULL, run_lease_s = NULL, lease_until_us = NULL, revoke_us = NULL,
        cancel_into = NULL, cancel_why = NULL, absorbed_by = %(absorbed_by)s::bigint,
        message_count = %(message_count)s::integer, delivered = %(delivered)s::integer, seen = %(seen)s::integer,
        front = false, promoted_from = NULL, ended_us = %(ended_us)s::bigint, reason = %(reason)s, claim_by_us = NULL
    FROM unnest(%(over)s::bigint[], %(over_versions)s::xid[], %(over_runs)s::bigint[]) AS new(id, version, run)
    WHERE i.id = new.id AND i.xmin = new.version AND i.run = new.run
    RETURNING 1
),
ended AS (
    INSERT INTO interlock.runs (run, item, attempt, agent, worker, started_us, ended_us, status, reason, result, error)
    SELECT r.run, r.item, %(run_attempt)s::integer, %(run_agent)s, %(run_worker)s, %(run_started_us)s::bigint,
        %(run_ended_us)s::bigint, %(run_status)s, %(run_reason)s, %(run_result)s, %(run_error)s
    FROM unnest(%(runs)s::bigint[], %(items)s::bigint[]) AS r(run, item)
    WHERE (SELECT count(*) FROM over) = %(count)s::bigint
)
INSERT INTO interlock.events (seq, at_us, kind, reason, project, item, run, lane, agent, span_us, data)
SELECT %(first_seq)s::bigint + r.nth - 1, %(event_at_us)s::bigint, %(event_kind)s, %(event_reason)s, %(event_project)s,
    r.item, r.run, %(event_lane)s, %(event_agent)s, %(event_span_us)s::bigint, %(event_data)s
FROM unnest(%(runs)s::bigint[], %(items)s::bigint[]) WITH ORDINALITY AS r(run, item, nth)
WHERE (SELECT count(*) FROM over) = %(count)s::bigint
