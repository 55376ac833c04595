-- Gates of lanes: work on a lane starts only while its series allows it.
-- Serves: 31

-- The gate of a lane, if it has one: the lane of its series, whether it is open, the types that it lets through when shut, and
-- since when it is so. It is on the row that every change of the lane locks: whoever waited for that row reads the gate as it is then.
ALTER TABLE interlock.lanes
    ADD COLUMN gate_series text COLLATE "C",
    ADD COLUMN gate_open   boolean,
    ADD COLUMN gate_exempt text[],
    ADD COLUMN gate_us     bigint,
    ADD CHECK ((gate_series IS NULL) = (gate_open IS NULL) AND (gate_series IS NULL) = (gate_exempt IS NULL)
        AND (gate_series IS NULL) = (gate_us IS NULL));
-- Its condition is not that of the next one: which of both serves a series must not be a guess of statistics.
CREATE INDEX lanes_gated ON interlock.lanes (lane) WHERE gate_us IS NOT NULL;
CREATE INDEX lanes_series ON interlock.lanes (gate_series, lane) WHERE gate_series IS NOT NULL;

-- Pending on a lane that is shut for its type: no claim may start it.
ALTER TABLE interlock.items
    ADD COLUMN gated boolean NOT NULL DEFAULT false,
    ADD CHECK (NOT gated OR (status = 'pending' AND lane IS NOT NULL));
CREATE INDEX items_gated ON interlock.items (lane) WHERE gated;

-- An item whose run was asked to stop may come back as pending.
DO $$
DECLARE
    old text;
BEGIN
    -- By its columns: how its text is printed depends on settings.
    SELECT conname INTO STRICT old FROM pg_constraint
    WHERE conrelid = 'interlock.items'::regclass AND contype = 'c'
        AND ARRAY(SELECT attname::text FROM pg_attribute WHERE attrelid = conrelid AND attnum = ANY(conkey)) = ARRAY['cancel_into'];
    EXECUTE format('ALTER TABLE interlock.items DROP CONSTRAINT %I', old);
END $$;
ALTER TABLE interlock.items ADD CHECK (cancel_into IN ('cancelled', 'superseded', 'pending'));

-- What is gated costs a claim nothing.
DROP INDEX interlock.items_ready;
DROP INDEX interlock.items_ready_task;
DROP INDEX interlock.items_ready_type;
CREATE INDEX items_ready ON interlock.items (agent_key, sort_key, type)
    WHERE status = 'pending' AND due_us IS NULL AND plan IS NULL AND NOT gated;
CREATE INDEX items_ready_task ON interlock.items (plan, agent_key, sort_key, type)
    WHERE status = 'pending' AND due_us IS NULL AND plan IS NOT NULL AND NOT gated;
CREATE INDEX items_ready_type ON interlock.items (agent_key, type, sort_key)
    WHERE status = 'pending' AND due_us IS NULL AND plan IS NULL AND NOT gated;

-- Offered: pending, not scheduled, not gated, of a project that nobody paused, and not blocked. A task may still be held back by its plan.
CREATE OR REPLACE VIEW interlock.offered AS
    SELECT id, sort_key, agent_key, type, labels, plan FROM interlock.items i
    WHERE status = 'pending' AND due_us IS NULL AND NOT gated AND project NOT IN (SELECT project FROM interlock.paused_projects)
        AND (SELECT true FROM interlock.blocks b WHERE b.lane = '' AND b.item = i.id LIMIT 1) IS NULL
        AND (SELECT true FROM interlock.blocks b WHERE b.lane = i.lane AND b.item = 0 LIMIT 1) IS NULL;

-- Lanes whose owner contradicts their gate: its flag is wrong, or its run may not go on and was not asked to stop.
CREATE VIEW interlock.misgated AS
    SELECT o.lane, o.id FROM interlock.items o JOIN interlock.lanes l ON l.lane = o.lane
    WHERE o.status IN ('pending', 'in_progress') AND o.lane IS NOT NULL
        AND CASE WHEN coalesce(l.gate_open, true) OR o.type = ANY(l.gate_exempt) THEN o.gated
            WHEN o.status = 'pending' THEN NOT o.gated ELSE o.cancel_into IS NULL END;
