-- Agents whose items wait for them in vain: they are overtaken.
-- Serves: 33
ALTER TABLE agents ADD COLUMN overtake_after_s REAL CHECK (overtake_after_s >= 0);
CREATE INDEX workers_agent ON workers (agent, seen_us);

-- Owners of lanes that have not started: until when one cannot start (for ever, as far as can be known, or until its agent's wall is
-- over; null if it can), whether its agent is unknown or cannot do it, and from when its agent counts as gone, if it shows no sign of life
-- before (null: not at all). `firm`: it is never overtaken, as a position orders its lane or it keeps the lane for its retries.
CREATE VIEW unstarted_owners AS
SELECT id, lane, agent_key, created_us, firm, unable,
    CASE WHEN unable OR NOT EXISTS (SELECT 1 FROM ungated WHERE ungated.id = o.id)
            OR (agent_key <> '' AND NOT EXISTS (SELECT 1 FROM free_agents WHERE free_agents.key = o.agent_key))
        THEN 9223372036854775807 ELSE wall_us END AS until_us,
    CASE WHEN agent IS NULL OR overtake_after_s = 0
            OR EXISTS (SELECT 1 FROM items r WHERE r.run IS NOT NULL AND r.run_agent = o.agent) THEN NULL
        ELSE max(ifnull(seen_us, created_us) + CAST(ifnull(overtake_after_s, 60) * 1000000 AS INTEGER),
            ifnull((SELECT max(w.seen_us) FROM workers w WHERE w.agent = o.agent) + 30000000, 0)) END AS gone_us
FROM (
    SELECT i.*, a.key AS agent, a.overtake_after_s, a.seen_us, a.wall_us, i.position < 2147483647 OR i.retry_lane = 'keep' AS firm,
        i.agent_key <> '' AND (a.key IS NULL OR (a.types <> '[]' AND i.type NOT IN (SELECT value FROM json_each(a.types)))
            OR (NOT (i.type = 'hold' AND EXISTS (SELECT 1 FROM json_each(i.labels) AS l WHERE l.value = 'hold'))
                AND EXISTS (SELECT 1 FROM json_each(i.labels) AS l WHERE l.value NOT IN (SELECT value FROM json_each(a.labels))))) AS unable
    FROM owners i LEFT JOIN agents a ON a.key = i.agent_key
    WHERE i.status = 'pending' AND i.due_us IS NULL) AS o;
-- Version 0.1.0 looks for work by the old name before it draws a number, and that refuses it in words.
DROP VIEW stuck_owners;
CREATE VIEW stuck_owners AS SELECT id, lane, until_us FROM unstarted_owners;
