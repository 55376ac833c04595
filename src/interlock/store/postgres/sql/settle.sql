-- Items take the state that was decided; runs that ended are written, once; and the lines of history, numbered by
-- transaction and place in it. Items that are over keep nothing of a run and need few columns, those that are promoted
-- fewer still; all others take their whole state and the attempts a retry granted. These two come after those that are
-- over have left their lanes: else the index that keeps one owner a lane could meet two. Parts marked --[ are there when
-- there is something for them.
WITH
--[ over
over AS (
    UPDATE interlock.items AS i SET
        status = new.status, attempt = new.attempt, releases = 0, due_us = NULL, run = NULL, run_agent = NULL,
        run_worker = NULL, run_started_us = NULL, run_lease_s = NULL, lease_until_us = NULL, revoke_us = NULL,
        cancel_into = NULL, cancel_why = NULL, absorbed_by = new.absorbed_by, message_count = new.message_count,
        delivered = new.delivered, seen = new.seen, front = false, promoted_from = NULL, ended_us = new.ended_us,
        reason = new.reason, claim_by_us = NULL
    FROM unnest(
            %s::bigint[], %s::text[], %s::integer[], %s::bigint[], %s::integer[], %s::integer[], %s::integer[],
            %s::bigint[], %s::text[]
        ) AS new(id, status, attempt, absorbed_by, message_count, delivered, seen, ended_us, reason)
    WHERE i.id = new.id
    RETURNING 1
),
--]
--[ promoted
promoted AS (
    UPDATE interlock.items AS i SET
        status = 'pending', front = false, promoted_from = new.promoted_from, reason = new.reason
    FROM unnest(%s::bigint[], %s::bigint[], %s::text[]) AS new(id, promoted_from, reason)
    WHERE i.id = new.id
        AND (SELECT count(*) FROM over) >= 0 --? after
),
--]
--[ others
settled AS (
    UPDATE interlock.items AS i SET
        status = new.status, attempt = new.attempt, releases = new.releases, due_us = new.due_us, run = new.run,
        run_agent = new.run_agent, run_worker = new.run_worker, run_started_us = new.run_started_us,
        run_lease_s = new.run_lease_s, lease_until_us = new.lease_until_us, revoke_us = new.revoke_us,
        cancel_into = new.cancel_into, cancel_why = new.cancel_why, absorbed_by = new.absorbed_by,
        message_count = new.message_count, delivered = new.delivered, seen = new.seen, front = new.front,
        promoted_from = new.promoted_from, first_claimed_us = new.first_claimed_us, ended_us = new.ended_us,
        reason = new.reason, claim_by_us = new.claim_by_us, max_attempts = new.max_attempts
    FROM unnest(
            %s::bigint[], %s::text[], %s::integer[], %s::integer[], %s::bigint[], %s::bigint[], %s::text[],
            %s::text[], %s::bigint[], %s::float8[], %s::bigint[], %s::bigint[], %s::text[], %s::text[],
            %s::bigint[], %s::integer[], %s::integer[], %s::integer[], %s::boolean[], %s::bigint[],
            %s::bigint[], %s::bigint[], %s::text[], %s::bigint[], %s::integer[]
        ) AS new(
            id, status, attempt, releases, due_us, run, run_agent, run_worker, run_started_us, run_lease_s,
            lease_until_us, revoke_us, cancel_into, cancel_why, absorbed_by, message_count, delivered, seen,
            front, promoted_from, first_claimed_us, ended_us, reason, claim_by_us, max_attempts
        )
    WHERE i.id = new.id
        AND (SELECT count(*) FROM over) >= 0 --? after
),
--]
ended AS (
    INSERT INTO interlock.runs (run, item, attempt, agent, worker, started_us, ended_us, status, reason, result, error)
    SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::integer[], %s::text[], %s::text[], %s::bigint[], %s::bigint[],
        %s::text[], %s::text[], %s::text[], %s::text[])
)
INSERT INTO interlock.events (seq, at_us, kind, reason, project, item, run, lane, agent, span_us, data)
SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::text[], %s::text[], %s::text[], %s::bigint[], %s::bigint[],
    %s::text[], %s::text[], %s::bigint[], %s::text[])
