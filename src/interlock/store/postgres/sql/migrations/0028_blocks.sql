-- Blocks: work waits for something outside, such as another issue, without a time.
-- Serves: 28

-- What waits for something outside: everything on a lane (`item` is 0), or one item (`lane` is empty).
CREATE TABLE interlock.blocks (
    lane    text COLLATE "C" NOT NULL,
    item    bigint NOT NULL,
    blocker text COLLATE "C" NOT NULL,
    why     text NOT NULL,
    url     text NOT NULL,
    at_us   bigint NOT NULL,
    PRIMARY KEY (lane, item, blocker),
    CHECK ((lane = '') = (item <> 0))
);
CREATE INDEX blocks_item ON interlock.blocks (item) WHERE item <> 0;
CREATE INDEX blocks_since ON interlock.blocks (at_us);

-- Offered: pending, not scheduled, of a project that nobody paused, and not blocked. A task may still be held back by its plan.
CREATE OR REPLACE VIEW interlock.offered AS
    SELECT id, sort_key, agent_key, type, labels, plan FROM interlock.items i
    WHERE status = 'pending' AND due_us IS NULL AND project NOT IN (SELECT project FROM interlock.paused_projects)
        AND (SELECT true FROM interlock.blocks b WHERE b.lane = '' AND b.item = i.id LIMIT 1) IS NULL
        AND (SELECT true FROM interlock.blocks b WHERE b.lane = i.lane AND b.item = 0 LIMIT 1) IS NULL;
