-- Queues: a claim decides once for a queue whether its items fit, and takes them in the order of one index.
-- Serves: 34

-- A block of the item itself is a flag on its row, in whatever status it is. A block of a lane is a flag on the lane's row; the lane's
-- owner is then gated.
ALTER TABLE items ADD COLUMN blocked INTEGER NOT NULL DEFAULT 0 CHECK (blocked IN (0, 1));
ALTER TABLE lanes ADD COLUMN blocked INTEGER NOT NULL DEFAULT 0 CHECK (blocked IN (0, 1));
CREATE INDEX lanes_blocked ON lanes (lane) WHERE blocked = 1;
CREATE INDEX items_blocked ON items (id) WHERE blocked = 1;
UPDATE items SET blocked = 1 WHERE ended_us IS NULL AND id IN (SELECT item FROM blocks WHERE item <> 0);
INSERT INTO lanes (lane) SELECT DISTINCT lane FROM blocks WHERE item = 0 ON CONFLICT DO NOTHING;
UPDATE lanes SET blocked = 1 WHERE lane IN (SELECT lane FROM blocks WHERE item = 0);
UPDATE items SET gated = 1 WHERE status = 'pending' AND lane IN (SELECT lane FROM blocks WHERE item = 0);

-- Agent, project, type, labels and plan name a queue: a wish fits all of its items, or none.
DROP INDEX items_ready;
CREATE INDEX items_ready ON items (agent_key, project, type, ifnull(labels, '[]'), ifnull(plan, 0), sort_key)
    WHERE status = 'pending' AND due_us IS NULL AND gated = 0 AND blocked = 0;

-- In a queue: pending, not scheduled, not gated and not blocked. The project or the plan may still hold back the whole queue.
CREATE VIEW queued AS
SELECT id, sort_key, agent_key, project, type, ifnull(labels, '[]') AS labels, ifnull(plan, 0) AS plan FROM items
WHERE status = 'pending' AND due_us IS NULL AND gated = 0 AND blocked = 0;

DROP VIEW ungated;
-- Items that neither their project nor their plan nor their lane's gate nor a block holds back, whatever their status. A deferred
-- item has no flag of its lane yet.
CREATE VIEW ungated AS
SELECT * FROM items
WHERE gated = 0 AND blocked = 0 AND project NOT IN (SELECT project FROM paused_projects)
    AND (plan IS NULL OR EXISTS (SELECT 1 FROM open_plans WHERE open_plans.id = items.plan))
    AND (status <> 'deferred' OR NOT EXISTS (SELECT 1 FROM lanes WHERE lanes.lane = items.lane
        AND (blocked = 1 OR (gate_open = 0 AND items.type NOT IN (SELECT value FROM json_each(gate_exempt))))));

DROP VIEW misgated;
-- Lanes whose owner contradicts their gate or their block: its flag is wrong, or its run may not go on and was not asked to stop.
CREATE VIEW misgated AS
SELECT o.lane, o.id FROM owners o JOIN lanes l ON l.lane = o.lane
WHERE CASE WHEN o.status = 'pending'
    THEN o.gated <> (l.blocked OR NOT (ifnull(l.gate_open, 1) = 1 OR o.type IN (SELECT value FROM json_each(l.gate_exempt))))
    ELSE o.cancel_into IS NULL AND NOT (ifnull(l.gate_open, 1) = 1 OR o.type IN (SELECT value FROM json_each(l.gate_exempt))) END;
