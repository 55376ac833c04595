-- The first item for an agent becomes its run, as `claim` would start it. Or nothing starts, and `claim` says why: the first item is a
-- task of a plan, of a paused project or not wanted, the agent's limits are not the ones that the wish was cut to, there is a budget, or something is due
-- and the caller wants to sweep first; or it is sent behind an end of runs that did not take place. `expect_unbudgeted` fails if the database no
-- longer serves this program.
-- It reads the first item of this agent and of anyone in the order of one index, however many queues there are, and takes the better
-- one; of items that another transaction has locked, the next one. What is read from `asked`, the planner does not see (`OFFSET 0`): see `claim`.
-- Whether the first item fits is asked of the one that was locked: behind one that does not fit there may be a better one than the
-- first of the other agent. The clock, the run and the number of the line of history come after the lock. Nobody corrects the clock
-- while this statement may lock items, so its offset is read once.
WITH started AS MATERIALIZED (
    SELECT first.*, asked.now_us AS asked_us, coalesce(%(now_us)s, interlock.clock_us(asked.offset_us)) AS now_us,
        nextval('interlock.run_numbers') AS run, interlock.next_seq() AS seq
    FROM (
        SELECT c.now_us, c.offset_us, %(agent)s::text AS me, %(types)s::text[] AS wanted, %(labels)s::text[] AS held, %(edits)s::boolean AS edits
        FROM (SELECT coalesce(%(now_us)s, interlock.clock_us(offset_us)) AS now_us, offset_us FROM interlock.clock WHERE interlock.expect_unbudgeted({schema})
                AND (NOT %(behind_end)s OR current_setting('interlock.ended', true) = 'yes') OFFSET 0) AS c
            LEFT JOIN interlock.agents a ON a.key = %(agent)s
        WHERE (a.max_concurrency, coalesce(a.types, '{}'), coalesce(a.labels, '{}'), a.paused_why, CASE WHEN a.wall_us > c.now_us THEN a.wall_us END, a.pool)
                IS NOT DISTINCT FROM (%(known_max)s::integer, %(known_types)s::text[], %(known_labels)s::text[], %(known_why)s::text, %(known_wall)s::bigint, %(known_pool)s::text)
            AND NOT (%(due_first)s AND coalesce(
                (SELECT true FROM interlock.items WHERE due_us <= c.now_us ORDER BY due_us LIMIT 1),
                (SELECT true FROM interlock.items WHERE status = 'pending' AND claim_by_us <= c.now_us ORDER BY claim_by_us LIMIT 1),
                (SELECT true FROM interlock.plans WHERE deadline_us <= c.now_us ORDER BY deadline_us LIMIT 1), false))
        OFFSET 0
    ) AS asked CROSS JOIN LATERAL (
        SELECT i.* FROM (
            SELECT whose.agent, best.sort_key FROM (VALUES (''), (asked.me)) AS whose(agent) CROSS JOIN LATERAL (
                SELECT i.sort_key FROM interlock.items i WHERE i.agent_key = whose.agent COLLATE "C"
                    AND i.status = 'pending' AND i.due_us IS NULL AND NOT i.gated AND NOT i.blocked AND i.id > 0 ORDER BY i.sort_key LIMIT 1
            ) AS best ORDER BY best.sort_key
        ) AS head CROSS JOIN LATERAL (
            SELECT i.id, i.project, i.type, i.labels, i.plan, i.priority, i.promoted_from, i.first_claimed_us, i.created_us,
                coalesce(i.lane, i.observed_lane) AS lane
            FROM interlock.items i WHERE i.agent_key = head.agent COLLATE "C"
                AND i.status = 'pending' AND i.due_us IS NULL AND NOT i.gated AND NOT i.blocked AND i.id > 0
                AND i.sort_key >= head.sort_key ORDER BY i.sort_key LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED
        ) AS i LIMIT 1
    ) AS first
    WHERE first.plan IS NULL AND (SELECT true FROM interlock.paused_projects p WHERE p.project = first.project LIMIT 1) IS NULL
        AND interlock.fits(first.type, first.labels, asked.wanted, asked.held, asked.edits)
),
logged AS (
    INSERT INTO interlock.events (seq, at_us, kind, reason, project, item, run, lane, agent, span_us, data)
    SELECT seq, now_us, 'run.started', '', project, id, run, lane, %(agent)s,
        CASE WHEN coalesce(first_claimed_us, now_us) = now_us THEN now_us - created_us END,
        CASE WHEN %(external)s THEN json_strip_nulls(json_build_object('promoted_from', promoted_from, 'external', true))::text
            WHEN promoted_from IS NOT NULL THEN '{"promoted_from":' || promoted_from || '}' END
    FROM started
),
tallied AS (
    INSERT INTO interlock.tally_changes (was, status, priority, n) SELECT 'pending', 'in_progress', priority, 1 FROM started
)
UPDATE interlock.items i SET
    status = 'in_progress',
    attempt = i.attempt + 1,
    run = s.run,
    run_bits = interlock.random_bits(),
    run_agent = %(agent)s,
    run_worker = %(worker)s,
    run_started_us = s.now_us,
    run_lease_s = CASE WHEN NOT %(external)s THEN coalesce(%(lease_s)s, i.lease_s, %(default_lease_s)s) END,
    lease_until_us = CASE WHEN NOT %(external)s THEN s.now_us + (coalesce(%(lease_s)s, i.lease_s, %(default_lease_s)s) * 1000000)::bigint END,
    due_us = s.now_us
        + (least(CASE WHEN NOT %(external)s THEN coalesce(%(lease_s)s, i.lease_s, %(default_lease_s)s) END, i.timeout_s) * 1000000)::bigint,
    claim_by_us = NULL,
    delivered = least(i.message_count, 1000),
    seen = 0,
    first_claimed_us = coalesce(i.first_claimed_us, s.now_us)
FROM started s
WHERE i.id = s.id
RETURNING NULL AS refused, false AS rivals, s.now_us - s.asked_us, (SELECT p.payload FROM interlock.payloads p WHERE p.item = i.id), i.*
