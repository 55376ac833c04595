-- Up to a limit of ready items become runs of one agent, each once, the best sort key first. It looks at no lane
-- and never waits: rows that another transaction has locked are passed over.
-- Items for this agent and items for anyone are probed apart, so items for others cost nothing; of the latter
-- only those are locked that come before the last of the former. Lines marked --? or --[ are there when asked for:
-- `freely` claims nothing if `look` would see that something is due or that the agent has a limit of any kind, or if
-- there are tasks of plans that it could start. `items` are those without a plan; `tasks` are the tasks named whose
-- plan gives out tasks, which are locked with its gate before the clock is read.
WITH
--[ tasks
picked AS MATERIALIZED (
    SELECT i.id FROM interlock.items i JOIN interlock.gates g ON g.plan = i.plan
    WHERE i.id = ANY(%(tasks)s::bigint[]) AND g.open
        AND i.status = 'pending' AND i.due_us IS NULL AND i.plan IS NOT NULL AND i.agent_key IN ('', %(agent)s)
        AND i.type = ANY(%(types)s::text[]) --? types
        AND (i.labels IS NULL OR i.labels <@ %(labels)s::text[])
    ORDER BY i.sort_key, i.id LIMIT %(limit)s FOR NO KEY UPDATE OF i SKIP LOCKED FOR SHARE OF g SKIP LOCKED
),
--]
clock AS MATERIALIZED (
    SELECT coalesce(%(now_us)s, interlock.now_us()) AS now_us, pg_current_xact_id()::text::bigint AS xid
    FROM (SELECT count(*) FROM picked) AS locked --? tasks
),
--[ freely
standing AS MATERIALIZED (
    SELECT NOT EXISTS (
        SELECT 1 FROM interlock.items
        WHERE status IN ('in_progress', 'waiting', 'pending') AND due_us IS NOT NULL
            AND due_us <= (SELECT now_us FROM clock)
    ) AND NOT EXISTS (
        SELECT 1 FROM interlock.items
        WHERE status = 'pending' AND claim_by_us IS NOT NULL AND claim_by_us <= (SELECT now_us FROM clock)
    ) AND NOT EXISTS (
        SELECT 1 FROM interlock.agents
        WHERE key = %(agent)s AND (max_concurrency IS NOT NULL OR paused_why IS NOT NULL
            OR cardinality(types) > 0 OR cardinality(labels) > 0)
    ) AND NOT EXISTS (
        -- A query for one value is never turned round: few plans are looked at, not all their tasks.
        SELECT 1 FROM interlock.gates g WHERE g.open AND (
            SELECT true FROM interlock.items t
            WHERE t.plan = g.plan AND t.status = 'pending' AND t.due_us IS NULL AND t.plan IS NOT NULL
                AND t.agent_key IN ('', %(agent)s) LIMIT 1)
    ) AS free, EXISTS (
        SELECT 1 FROM interlock.items
        WHERE status = 'pending' AND lane IS NOT NULL AND agent_key <> '' AND agent_key <> %(agent)s
    ) OR EXISTS (SELECT 1 FROM interlock.paused_projects) OR (EXISTS (
        SELECT 1 FROM interlock.plans WHERE ended_us IS NULL AND (cycle_us IS NOT NULL OR paused_why IS NOT NULL)
    ) AND (
        -- Not EXISTS, which may be planned to read the table where most of it is what is looked for.
        SELECT min(plan) FROM interlock.items WHERE status = 'pending' AND lane IS NOT NULL AND plan IS NOT NULL
    ) IS NOT NULL) AS shut
),
--]
--[ items
mine AS MATERIALIZED (
    SELECT id, sort_key FROM interlock.items
    WHERE status = 'pending' AND due_us IS NULL AND plan IS NULL AND agent_key = %(agent)s
        AND (SELECT free FROM standing) --? freely
        AND id = %(only)s --? only
        AND type = ANY(%(types)s::text[]) --? types
        AND type <> 'plan.edit' --? no_edits
        AND (labels IS NULL OR labels <@ %(labels)s::text[])
        AND project NOT IN (SELECT project FROM interlock.paused_projects)
    ORDER BY sort_key LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED
),
anyones AS MATERIALIZED (
    SELECT id, sort_key FROM interlock.items
    WHERE status = 'pending' AND due_us IS NULL AND plan IS NULL AND agent_key = ''
        AND (SELECT free FROM standing) --? freely
        AND sort_key <= coalesce((SELECT max(sort_key) FROM mine HAVING count(*) >= %(limit)s), 9223372036854775807)
        AND id = %(only)s --? only
        AND type = ANY(%(types)s::text[]) --? types
        AND (labels IS NULL OR labels <@ %(labels)s::text[])
        AND project NOT IN (SELECT project FROM interlock.paused_projects)
    ORDER BY sort_key LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED
),
picked AS MATERIALIZED (
    SELECT id FROM (SELECT * FROM mine UNION ALL SELECT * FROM anyones) AS ready
    ORDER BY sort_key, id LIMIT %(limit)s
),
--]
claimed AS (
    UPDATE interlock.items i SET
        status = 'in_progress',
        attempt = i.attempt + 1,
        run = nextval('interlock.run_numbers'),
        run_agent = %(agent)s,
        run_worker = %(worker)s,
        run_started_us = clock.now_us,
        run_lease_s = coalesce(%(lease_s)s, i.lease_s, %(default_lease_s)s),
        lease_until_us = clock.now_us
            + (coalesce(%(lease_s)s, i.lease_s, %(default_lease_s)s) * 1000000)::bigint,
        due_us = clock.now_us
            + (least(coalesce(%(lease_s)s, i.lease_s, %(default_lease_s)s), i.timeout_s) * 1000000)::bigint,
        claim_by_us = NULL,
        delivered = least(i.message_count, 1000),
        seen = 0,
        first_claimed_us = coalesce(i.first_claimed_us, clock.now_us)
    FROM clock
    WHERE i.id = ANY(ARRAY(SELECT id FROM picked))
    RETURNING i.*
),
logged AS (
    INSERT INTO interlock.events (seq, at_us, kind, reason, project, item, run, lane, agent, span_us, data)
    SELECT %(event_base)s + (clock.xid << 16) + %(first_event)s + row_number() OVER (), clock.now_us, 'run.started', '',
        c.project, c.id, c.run,
        coalesce(c.lane, c.observed_lane), c.run_agent,
        CASE WHEN c.first_claimed_us = clock.now_us THEN clock.now_us - c.created_us END,
        CASE WHEN c.promoted_from IS NOT NULL THEN '{"promoted_from":' || c.promoted_from || '}' END
    FROM claimed c, clock
)
SELECT c.*, (SELECT p.payload FROM interlock.payloads p WHERE p.item = c.id), clock.xid
    , (SELECT shut FROM standing) --? freely
FROM claimed c, clock
