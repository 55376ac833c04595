-- Blocks: work waits for something outside, such as another issue, without a time.
-- Serves: 24

-- What waits for something outside: everything on a lane (`item` is 0), or one item (`lane` is empty).
CREATE TABLE blocks (
    lane    TEXT NOT NULL,
    item    INTEGER NOT NULL,
    blocker TEXT NOT NULL,
    why     TEXT NOT NULL,
    url     TEXT NOT NULL,
    at_us   INTEGER NOT NULL,
    PRIMARY KEY (lane, item, blocker),
    CHECK ((lane = '') = (item <> 0))
) STRICT, WITHOUT ROWID;
CREATE INDEX blocks_item ON blocks (item) WHERE item <> 0;
CREATE INDEX blocks_since ON blocks (at_us);

DROP VIEW ungated;
-- Items that neither their project nor their plan nor a block holds back, whatever their status.
CREATE VIEW ungated AS
SELECT * FROM items
WHERE project NOT IN (SELECT project FROM paused_projects)
    AND (plan IS NULL OR EXISTS (SELECT 1 FROM open_plans WHERE open_plans.id = items.plan))
    AND NOT EXISTS (SELECT 1 FROM blocks WHERE blocks.lane = '' AND blocks.item = items.id)
    AND NOT EXISTS (SELECT 1 FROM blocks WHERE blocks.lane = items.lane AND blocks.item = 0);
