-- Items that end in the same way, some with who follows on the lane: their states, their runs and their lines of history
-- differ in nothing but names and results, so all else is said once. Nothing is promoted and no run and no line of history
-- is written unless all rows that end, and all heirs, were in the versions given: what was written then has to be taken back.
-- Heirs come after those that end have left their lanes: else the index that keeps one owner a lane could meet two.
WITH ends AS MATERIALIZED (
    SELECT * FROM unnest(%(items)s::bigint[], %(versions)s::xid[], %(runs)s::bigint[], %(lanes)s::text[], %(results)s::text[]
        , %(heirs)s::bigint[], %(heir_versions)s::xid[], %(heir_agents)s::text[] --? heirs
    ) WITH ORDINALITY AS e(item, version, run, lane, result
        , heir, heir_version, heir_agent --? heirs
        , nth)
),
over AS (
    UPDATE interlock.items AS i SET
        status = %(status)s, attempt = %(attempt)s::integer, releases = 0, due_us = NULL, run = NULL, run_agent = NULL,
        run_worker = NULL, run_started_us = NULL, run_lease_s = NULL, lease_until_us = NULL, revoke_us = NULL,
        cancel_into = NULL, cancel_why = NULL, absorbed_by = %(absorbed_by)s::bigint,
        message_count = %(message_count)s::integer, delivered = %(delivered)s::integer, seen = %(seen)s::integer,
        front = false, promoted_from = NULL, ended_us = %(ended_us)s::bigint, reason = %(reason)s, claim_by_us = NULL
    FROM ends AS e
    WHERE i.id = e.item AND i.xmin = e.version AND i.run = e.run
    RETURNING 1
),
--[ heirs
promoted AS (
    UPDATE interlock.items AS i SET
        status = 'pending', front = false, promoted_from = e.run, reason = %(heir_reason)s
    FROM ends AS e
    WHERE i.id = e.heir AND i.xmin = e.heir_version AND (SELECT count(*) FROM over) = %(count)s::bigint
    RETURNING 1
),
--]
ended AS (
    INSERT INTO interlock.runs (run, item, attempt, agent, worker, started_us, ended_us, status, reason, result, error)
    SELECT e.run, e.item, %(run_attempt)s::integer, %(run_agent)s, %(run_worker)s, %(run_started_us)s::bigint,
        %(run_ended_us)s::bigint, %(run_status)s, %(run_reason)s, e.result, %(run_error)s
    FROM ends AS e
    WHERE (SELECT count(*) FROM over) = %(count)s::bigint
        AND (SELECT count(*) FROM promoted) = %(heir_count)s::bigint --? heirs
)
INSERT INTO interlock.events (seq, at_us, kind, reason, project, item, run, lane, agent, span_us, data)
SELECT %(first_seq)s::bigint + 2 * (e.nth - 1), %(event_at_us)s::bigint, %(event_kind)s, %(event_reason)s,
    %(event_project)s, e.item, e.run, e.lane, %(event_agent)s, %(event_span_us)s::bigint, %(event_data)s
FROM ends AS e
WHERE (SELECT count(*) FROM over) = %(count)s::bigint
--[ heirs
    AND (SELECT count(*) FROM promoted) = %(heir_count)s::bigint
UNION ALL
SELECT %(first_seq)s::bigint + 2 * e.nth - 1, %(event_at_us)s::bigint, %(heir_kind)s, %(heir_reason)s,
    %(heir_project)s, e.heir, e.run, e.lane, e.heir_agent, NULL,
    '{"from_run":' || e.run || ',"to_item":' || e.heir || ',"agent_key":' || to_json(e.heir_agent) || '}'
FROM ends AS e
WHERE e.heir IS NOT NULL AND (SELECT count(*) FROM promoted) = %(heir_count)s::bigint
--]
