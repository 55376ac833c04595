-- Agents whose items wait for them in vain: they are overtaken.
-- Serves: 37
ALTER TABLE interlock.agents ADD COLUMN overtake_after_s double precision CHECK (overtake_after_s >= 0);
CREATE INDEX workers_agent ON interlock.workers (agent, seen_us);

-- Owners of lanes that have not started: until when one cannot start (for ever, as far as can be known, or until its agent's wall is
-- over; null if it can), whether its agent is unknown or cannot do it, and from when its agent counts as gone, if it shows no sign of life
-- before (null: not at all). `firm`: it is never overtaken, as a position orders its lane or it keeps the lane for its retries.
CREATE VIEW interlock.unstarted_owners AS
    SELECT o.id, o.lane, o.agent_key, o.created_us, o.position < 2147483647 OR o.retry_lane = 'keep' AS firm, able.not AS unable,
        CASE WHEN able.not OR (SELECT true FROM interlock.ready r WHERE r.id = o.id LIMIT 1) IS NULL
                OR (o.agent_key <> '' AND (SELECT true FROM interlock.free_agents f WHERE f.key = o.agent_key LIMIT 1) IS NULL)
            THEN 9223372036854775807 ELSE a.wall_us END AS until_us,
        CASE WHEN a.key IS NULL OR a.overtake_after_s = 0
                OR (SELECT true FROM interlock.items r WHERE r.status = 'in_progress' AND r.run_agent = a.key LIMIT 1) THEN NULL
            ELSE greatest(coalesce(a.seen_us, o.created_us) + (coalesce(a.overtake_after_s, 60) * 1000000)::bigint,
                (SELECT w.seen_us FROM interlock.workers w WHERE w.agent = a.key ORDER BY w.agent DESC, w.seen_us DESC LIMIT 1) + 30000000) END AS gone_us
    FROM interlock.items o LEFT JOIN interlock.agents a ON a.key = o.agent_key
    CROSS JOIN LATERAL (SELECT o.agent_key <> '' AND (a.key IS NULL OR (a.types <> '{}' AND o.type <> ALL(a.types))
        OR (NOT coalesce(o.labels, '{}') <@ a.labels AND NOT (o.type = 'hold' AND 'hold' = ANY(o.labels)))) AS not) AS able
    WHERE o.status IN ('pending', 'in_progress') AND o.lane IS NOT NULL AND o.status = 'pending' AND o.due_us IS NULL;
DROP VIEW interlock.stuck_owners;
