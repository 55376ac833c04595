-- Gates of lanes: work on a lane starts only while its series allows it.
-- Serves: 27

-- The gate of a lane, if it has one: the lane of its series, whether it is open, the types that it lets through when shut, and
-- since when it is so.
ALTER TABLE lanes ADD COLUMN gate_series TEXT;
ALTER TABLE lanes ADD COLUMN gate_open INTEGER;
ALTER TABLE lanes ADD COLUMN gate_exempt TEXT;
ALTER TABLE lanes ADD COLUMN gate_us INTEGER CHECK ((gate_series IS NULL) = (gate_open IS NULL)
    AND (gate_series IS NULL) = (gate_exempt IS NULL) AND (gate_series IS NULL) = (gate_us IS NULL));
CREATE INDEX lanes_gated ON lanes (lane) WHERE gate_series IS NOT NULL;
CREATE INDEX lanes_series ON lanes (gate_series, lane) WHERE gate_series IS NOT NULL;

-- Pending on a lane that is shut for its type: no claim may start it.
ALTER TABLE items ADD COLUMN gated INTEGER NOT NULL DEFAULT 0 CHECK (gated = 0 OR (gated = 1 AND status = 'pending' AND lane IS NOT NULL));
CREATE INDEX items_gated ON items (lane) WHERE gated = 1;

-- An item whose run was asked to stop may come back as pending. SQLite cannot change a CHECK; widening one in the text of the
-- schema touches no row. See migration 3.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql,
    'CHECK (cancel_into IN (''cancelled'', ''superseded''))',
    'CHECK (cancel_into IN (''cancelled'', ''superseded'', ''pending''))')
WHERE type = 'table' AND name = 'items';
PRAGMA writable_schema = RESET;

DROP INDEX items_ready;
CREATE INDEX items_ready ON items (plan, agent_key, sort_key, type) WHERE status = 'pending' AND due_us IS NULL AND gated = 0;

DROP VIEW ungated;
-- Items that neither their project nor their plan nor their lane's gate nor a block holds back, whatever their status. A deferred
-- item has no flag yet.
CREATE VIEW ungated AS
SELECT * FROM items
WHERE gated = 0 AND project NOT IN (SELECT project FROM paused_projects)
    AND (plan IS NULL OR EXISTS (SELECT 1 FROM open_plans WHERE open_plans.id = items.plan))
    AND NOT EXISTS (SELECT 1 FROM blocks WHERE blocks.lane = '' AND blocks.item = items.id)
    AND NOT EXISTS (SELECT 1 FROM blocks WHERE blocks.lane = items.lane AND blocks.item = 0)
    AND (status <> 'deferred' OR NOT EXISTS (SELECT 1 FROM lanes WHERE lanes.lane = items.lane AND gate_open = 0
        AND items.type NOT IN (SELECT value FROM json_each(gate_exempt))));

-- Lanes whose owner contradicts their gate: its flag is wrong, or its run may not go on and was not asked to stop.
CREATE VIEW misgated AS
SELECT o.lane, o.id FROM owners o JOIN lanes l ON l.lane = o.lane
WHERE CASE WHEN ifnull(l.gate_open, 1) = 1 OR o.type IN (SELECT value FROM json_each(l.gate_exempt)) THEN o.gated = 1
    WHEN o.status = 'pending' THEN o.gated = 0 ELSE o.cancel_into IS NULL END;
