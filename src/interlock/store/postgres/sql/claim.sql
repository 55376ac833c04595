-- Start runs of one agent on ready items, up to a limit, each once, the best sort key first. A claim locks no lane and never
-- waits: it skips rows that another transaction has locked. Nothing starts if `asked.go` is false. Then the agent's limits
-- differ from those of the claim, or an item is due and the caller wants to sweep first. `expect` fails if the database no
-- longer serves this program.
-- Items for this agent and items for anyone are searched separately, so that items for others cost nothing. Optional parts of
-- the claim are read from `asked`, where the planner does not see their values. So a plan for one claim costs the same as the
-- generic plan, and the server keeps the latter.
-- With a `front` it searches from that sort key on, for items that became due since then, and not for rivals. Earlier entries were
-- searched a moment ago, and may be only dead index entries that no vacuum has removed yet.
-- It names what budgets bar as `project type`, where `*` is any.
-- An external run gets no lease: only a timeout of its item ends it.
WITH RECURSIVE asked AS MATERIALIZED (
    SELECT w.due, w.rivals, w.budgeted, %(barred)s::text[] AS barred, %(limit)s::integer AS n, %(only)s::bigint AS one, %(types)s::text[] AS wanted,
        %(labels)s::text[] AS held, %(edits)s::boolean AS edits, %(agent)s::text AS me,
        CASE WHEN %(only)s::bigint IS NULL THEN %(seeds)s::bigint[] ELSE ARRAY[%(only)s::bigint] END AS seeds, w.now_us, w.front, a.*, %(limit)s > 0 AND NOT (w.due AND %(due_first)s) AND w.budgeted = %(known_budgeted)s
        AND (a.max_concurrency, coalesce(a.types, '{}'), coalesce(a.labels, '{}'), a.paused_why, CASE WHEN a.wall_us > w.now_us THEN a.wall_us END, a.pool)
            IS NOT DISTINCT FROM (%(known_max)s::integer, %(known_types)s::text[], %(known_labels)s::text[], %(known_why)s::text, %(known_wall)s::bigint, %(known_pool)s::text) AS go
    FROM (SELECT c.now_us, c.front,
        -- The three kinds of `deadlines`, each by its own index: the planner may sort all of their union.
        coalesce(
            (SELECT true FROM interlock.items WHERE due_us <= c.now_us AND due_us > c.since_us ORDER BY due_us LIMIT 1),
            (SELECT true FROM interlock.items WHERE status = 'pending' AND claim_by_us <= c.now_us AND claim_by_us > c.since_us
                ORDER BY claim_by_us LIMIT 1),
            (SELECT true FROM interlock.plans WHERE deadline_us <= c.now_us ORDER BY deadline_us LIMIT 1), false) AS due,
        -- In the full order of their index: another index also has the lanes in order, but of all agents.
        CASE WHEN c.front IS NULL THEN
            (SELECT lane FROM interlock.items WHERE status = 'deferred' AND agent_key = %(agent)s
                ORDER BY lane, position, ticket, id LIMIT 1) IS NOT NULL
            OR (SELECT lane FROM interlock.items WHERE status = 'deferred' AND agent_key = ''
                ORDER BY lane, position, ticket, id LIMIT 1) IS NOT NULL
        ELSE false END AS rivals,
        EXISTS (SELECT FROM interlock.budgets) AS budgeted
        FROM (SELECT coalesce(%(now_us)s, interlock.clock_us()) AS now_us, %(front)s::bigint AS front, %(since_us)s::bigint AS since_us WHERE interlock.expect({schema})) AS c OFFSET 0
    ) AS w LEFT JOIN interlock.agents a ON a.key = %(agent)s
),
-- The queues of this agent and of anyone, each with its first item. It skips from one queue to the next, so it reads one row for
-- each queue, however long that is. With `seeds`, only the queues of these items.
queues(agent_key, project, type, labels, plan, first) AS (
    SELECT i.agent_key, i.project, i.type, coalesce(i.labels, '{}') COLLATE "C", coalesce(i.plan, 0), coalesce(asked.front, i.sort_key)
    FROM asked JOIN interlock.items i ON i.id = ANY(asked.seeds) AND i.agent_key IN ('', asked.me) WHERE asked.go
    UNION ALL
    SELECT whose.agent COLLATE "C", '' COLLATE "C", '' COLLATE "C", '{}'::text[] COLLATE "C", 0::bigint, 0 FROM asked CROSS JOIN unnest(ARRAY['', asked.me]) AS whose(agent)
    WHERE asked.go AND asked.seeds IS NULL
    UNION ALL
    SELECT next.* FROM queues AS last CROSS JOIN LATERAL (
        SELECT q.agent_key, q.project, q.type, q.labels, q.plan, q.sort_key FROM interlock.queued q
        WHERE q.agent_key = last.agent_key AND (q.project, q.type, q.labels, q.plan) > (last.project, last.type, last.labels, last.plan)
        ORDER BY q.project, q.type, q.labels, q.plan, q.sort_key LIMIT 1
    ) AS next
    WHERE (SELECT seeds IS NULL FROM asked)
),
-- The best items of each matching queue, beginning with the queue of the best one. For one item, the first that is not locked. For
-- more, the best are in at most as many queues. A task is locked after its plan's gate, so that none starts once the edit cycle is open.
locked AS MATERIALIZED (
    SELECT r.id, r.sort_key FROM (
        SELECT q.*, asked.one IS NULL AS whole FROM asked CROSS JOIN queues q
        WHERE q.project <> '' AND q.project NOT IN (SELECT project FROM interlock.paused_projects)
            AND interlock.fits(q.type, q.labels, asked.wanted, asked.held, asked.edits)
            AND (asked.barred IS NULL OR NOT asked.barred && ARRAY[q.project || ' *', '* ' || q.type, q.project || ' ' || q.type])
        ORDER BY q.first LIMIT (SELECT CASE WHEN n > 1 THEN n + 4 END FROM asked)
    ) AS q LEFT JOIN LATERAL (
        SELECT g.plan FROM interlock.gates g WHERE q.plan <> 0 AND g.plan = q.plan AND g.open FOR SHARE SKIP LOCKED
    ) AS gate ON true CROSS JOIN LATERAL (
        SELECT i.id, i.sort_key FROM interlock.queued i
        WHERE (q.plan = 0 OR q.plan = gate.plan) AND i.agent_key = q.agent_key AND i.project = q.project AND i.type = q.type
            AND i.labels = q.labels AND i.plan = q.plan AND i.sort_key >= q.first
            AND i.sort_key <= CASE WHEN q.whole THEN 9223372036854775807 ELSE q.first END AND (q.whole OR i.id = (SELECT one FROM asked))
        ORDER BY i.sort_key LIMIT (SELECT n FROM asked) FOR NO KEY UPDATE SKIP LOCKED
    ) AS r
    LIMIT (SELECT CASE WHEN n = 1 THEN 1 END FROM asked)
),
picked AS MATERIALIZED (
    SELECT id FROM locked ORDER BY sort_key, id LIMIT (SELECT n FROM asked)
),
-- The clock and the number of the first event, both after the locks.
clock AS MATERIALIZED (
    SELECT coalesce(%(now_us)s, interlock.clock_us()) AS now_us, interlock.next_seq() AS seq
    FROM (SELECT count(*) FROM picked HAVING count(*) > 0) AS locked
),
claimed AS (
    UPDATE interlock.items i SET
        status = 'in_progress',
        attempt = i.attempt + 1,
        run = nextval('interlock.run_numbers'),
        run_bits = interlock.random_bits(),
        run_agent = %(agent)s,
        run_worker = %(worker)s,
        run_started_us = clock.now_us,
        run_lease_s = CASE WHEN NOT %(external)s THEN coalesce(%(lease_s)s, i.lease_s, %(default_lease_s)s) END,
        lease_until_us = CASE WHEN NOT %(external)s THEN clock.now_us + (coalesce(%(lease_s)s, i.lease_s, %(default_lease_s)s) * 1000000)::bigint END,
        due_us = clock.now_us
            + (least(CASE WHEN NOT %(external)s THEN coalesce(%(lease_s)s, i.lease_s, %(default_lease_s)s) END, i.timeout_s) * 1000000)::bigint,
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
    SELECT (SELECT seq FROM clock) + row_number() OVER () - 1,
        run_started_us, 'run.started', '', project, id, run, coalesce(lane, observed_lane), run_agent,
        CASE WHEN first_claimed_us = run_started_us THEN run_started_us - created_us END,
        CASE WHEN lease_until_us IS NULL THEN json_strip_nulls(json_build_object('promoted_from', promoted_from, 'external', true))::text
            WHEN promoted_from IS NOT NULL THEN '{"promoted_from":' || promoted_from || '}' END
    FROM claimed
),
tallied AS (
    INSERT INTO interlock.tally_changes (was, status, priority, n)
    SELECT 'pending', status, priority, count(*) FROM claimed GROUP BY status, priority
)
SELECT CASE WHEN c.id IS NULL THEN to_json(asked)::text END, asked.rivals, c.run_started_us - asked.now_us,
    (SELECT p.payload FROM interlock.payloads p WHERE p.item = c.id), c.*
FROM asked LEFT JOIN claimed c ON true
