-- Every predicate of a claim stands once, as a view; items are counted as they change; reads stop where they should.

-- Plans that give out tasks: running, in no edit cycle, not paused.
CREATE VIEW open_plans AS
SELECT * FROM plans WHERE status = 'running' AND cycle_us IS NULL AND paused_why IS NULL;

-- Items that neither their project nor their plan holds back, whatever their status.
CREATE VIEW ungated AS
SELECT * FROM items
WHERE project NOT IN (SELECT project FROM paused_projects)
    AND (plan IS NULL OR EXISTS (SELECT 1 FROM open_plans WHERE open_plans.id = items.plan));

-- Items that a claim may start.
CREATE VIEW ready AS
SELECT * FROM ungated WHERE status = 'pending' AND due_us IS NULL;

-- When time alone moves an item: deadlines of runs, ends of back-offs, schedules; times by which an item must be
-- claimed; and deadlines of edits, under the item that asks for the edit.
CREATE VIEW deadlines (item, at_us) AS
SELECT id, due_us FROM items WHERE due_us IS NOT NULL
UNION ALL
SELECT id, claim_by_us FROM items WHERE claim_by_us IS NOT NULL
UNION ALL
SELECT edit_item, deadline_us FROM plans WHERE deadline_us IS NOT NULL;

-- The active item of each lane.
CREATE VIEW owners AS
SELECT * FROM items WHERE status IN ('pending', 'in_progress') AND lane IS NOT NULL;

-- Whoever keeps a lane from opening: its owner, or items that were let through while the lane was only observed.
CREATE VIEW holders (lane, item, observed) AS
SELECT lane, id, 0 FROM owners
UNION ALL
SELECT observed_lane, id, 1 FROM items WHERE status IN ('pending', 'in_progress') AND observed_lane IS NOT NULL;

-- Agents that may start one more run: known, not paused, below their limit. One edit of a plan does not count.
CREATE VIEW free_agents AS
SELECT key FROM agents
WHERE paused_why IS NULL AND (max_concurrency IS NULL OR max_concurrency > (
    SELECT count(*) - min(count(*) FILTER (WHERE type = 'plan.edit'), 1) FROM items
    WHERE run IS NOT NULL AND run_agent = agents.key));

-- Owners that cannot start now and may be overtaken: no position orders their lane, no retry keeps it.
CREATE VIEW stuck_owners AS
SELECT * FROM owners
WHERE status = 'pending' AND due_us IS NULL AND position = 2147483647 AND NOT (retry_lane = 'keep' AND attempt > 0)
    AND (
        NOT EXISTS (SELECT 1 FROM ungated WHERE ungated.id = owners.id)
        OR (agent_key <> '' AND NOT EXISTS (SELECT 1 FROM free_agents WHERE free_agents.key = owners.agent_key))
    );

DROP INDEX items_ready;
DROP INDEX items_ready_task;
DROP INDEX items_due;
DROP INDEX items_unclaimed;
DROP INDEX items_owed;
DROP INDEX items_owed_task;
DROP INDEX items_failed;
DROP INDEX plans_shut;

CREATE INDEX plans_unended ON plans (id) WHERE ended_us IS NULL;
CREATE INDEX items_ready ON items (plan, agent_key, sort_key, type) WHERE status = 'pending' AND due_us IS NULL;
CREATE INDEX items_due ON items (due_us) WHERE due_us IS NOT NULL;
CREATE INDEX items_unclaimed ON items (claim_by_us) WHERE claim_by_us IS NOT NULL;
CREATE INDEX items_running ON items (run_agent, type) WHERE run IS NOT NULL;
CREATE INDEX items_rivals ON items (agent_key, lane, front DESC, ticket, id)
    WHERE status = 'deferred' AND position = 2147483647;
-- For listings only. The collation keeps the planner, which has no statistics, from using it wherever a status is named.
CREATE INDEX items_listed ON items (status COLLATE NOCASE, id);

-- How many items there are, kept by the triggers below.
CREATE TABLE tallies (
    status    TEXT NOT NULL,
    priority  INTEGER NOT NULL,
    scheduled INTEGER NOT NULL,
    n         INTEGER NOT NULL,
    PRIMARY KEY (status, priority, scheduled)
) STRICT, WITHOUT ROWID;

INSERT INTO tallies (status, priority, scheduled, n)
SELECT status, priority, due_us IS NOT NULL, count(*) FROM items GROUP BY 1, 2, 3;

CREATE TRIGGER items_tally_insert AFTER INSERT ON items
BEGIN
    INSERT INTO tallies (status, priority, scheduled, n) VALUES (NEW.status, NEW.priority, NEW.due_us IS NOT NULL, 1)
    ON CONFLICT DO UPDATE SET n = n + 1;
END;

CREATE TRIGGER items_tally_update AFTER UPDATE OF status, priority, due_us ON items
WHEN OLD.status <> NEW.status OR OLD.priority <> NEW.priority OR (OLD.due_us IS NULL) <> (NEW.due_us IS NULL)
BEGIN
    INSERT INTO tallies (status, priority, scheduled, n) VALUES (NEW.status, NEW.priority, NEW.due_us IS NOT NULL, 1)
    ON CONFLICT DO UPDATE SET n = n + 1;
    UPDATE tallies SET n = n - 1
    WHERE status = OLD.status AND priority = OLD.priority AND scheduled = (OLD.due_us IS NOT NULL);
END;

CREATE TRIGGER items_tally_delete AFTER DELETE ON items
BEGIN
    UPDATE tallies SET n = n - 1
    WHERE status = OLD.status AND priority = OLD.priority AND scheduled = (OLD.due_us IS NOT NULL);
END;
