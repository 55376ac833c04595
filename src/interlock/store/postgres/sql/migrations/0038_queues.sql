-- Queues: a claim decides once for a queue whether its items fit, and takes them in the order of one index.
-- Serves: 38

-- A block of the item itself is a flag on its row, in whatever status it is. A block of a lane is a flag on the lane's row, which every
-- change of the lane locks; the lane's owner is then gated.
ALTER TABLE interlock.items ADD COLUMN blocked boolean NOT NULL DEFAULT false;
ALTER TABLE interlock.lanes ADD COLUMN blocked boolean NOT NULL DEFAULT false;
CREATE INDEX lanes_blocked ON interlock.lanes (lane) WHERE blocked;
CREATE INDEX items_blocked ON interlock.items (id) WHERE blocked;
UPDATE interlock.items SET blocked = true WHERE ended_us IS NULL AND id IN (SELECT item FROM interlock.blocks WHERE item <> 0);
INSERT INTO interlock.lanes (lane) SELECT DISTINCT lane FROM interlock.blocks WHERE item = 0 ON CONFLICT DO NOTHING;
UPDATE interlock.lanes SET blocked = true WHERE lane IN (SELECT lane FROM interlock.blocks WHERE item = 0);
UPDATE interlock.items SET gated = true
    WHERE status = 'pending' AND lane IN (SELECT lane FROM interlock.blocks WHERE item = 0);

-- Agent, project, type, labels and plan name a queue: a wish fits all of its items, or none.
DROP INDEX interlock.items_ready;
DROP INDEX interlock.items_ready_task;
DROP INDEX interlock.items_ready_type;
CREATE INDEX items_ready ON interlock.items
    (agent_key, project, type, (coalesce(labels, '{}') COLLATE "C"), (coalesce(plan, 0)), sort_key)
    WHERE status = 'pending' AND due_us IS NULL AND NOT gated AND NOT blocked;

-- In a queue: pending, not scheduled, not gated and not blocked. The project or the plan may still hold back the whole queue.
CREATE VIEW interlock.queued AS
    SELECT id, sort_key, agent_key, project, type, coalesce(labels, '{}') COLLATE "C" AS labels, coalesce(plan, 0) AS plan
    FROM interlock.items WHERE status = 'pending' AND due_us IS NULL AND NOT gated AND NOT blocked;

-- Offered: in a queue, and of a project that nobody paused. A task may still be held back by its plan.
CREATE OR REPLACE VIEW interlock.offered AS
    SELECT id, sort_key, agent_key, type, labels, plan FROM interlock.items
    WHERE status = 'pending' AND due_us IS NULL AND NOT gated AND NOT blocked
        AND project NOT IN (SELECT project FROM interlock.paused_projects);

-- Lanes whose owner contradicts their gate or their block: its flag is wrong, or its run may not go on and was not asked to stop.
CREATE OR REPLACE VIEW interlock.misgated AS
    SELECT o.lane, o.id FROM interlock.items o JOIN interlock.lanes l ON l.lane = o.lane
    WHERE o.status IN ('pending', 'in_progress') AND o.lane IS NOT NULL
        AND CASE WHEN o.status = 'pending'
            THEN o.gated <> (l.blocked OR NOT (coalesce(l.gate_open, true) OR o.type = ANY(l.gate_exempt)))
            ELSE o.cancel_into IS NULL AND NOT (coalesce(l.gate_open, true) OR o.type = ANY(l.gate_exempt)) END;
