-- One place for each thing a claim asks, and counts that cost the same whatever the history.

-- Offered: pending, not scheduled, and of a project that nobody paused. A task may still be held back by its plan.
CREATE VIEW interlock.offered AS
    SELECT id, sort_key, agent_key, type, labels, plan FROM interlock.items
    WHERE status = 'pending' AND due_us IS NULL AND project NOT IN (SELECT project FROM interlock.paused_projects);

-- What a claim may start: offered, and of no plan or of one that gives out tasks.
CREATE VIEW interlock.ready AS
    SELECT * FROM interlock.offered o
    WHERE plan IS NULL OR EXISTS (SELECT FROM interlock.gates g WHERE g.plan = o.plan AND g.open);

-- Whether an item fits a wish: its type is wanted (null: any), and every label it needs is held.
CREATE FUNCTION interlock.fits(type text, needed text[], wanted text[], held text[], edits boolean) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT (wanted IS NULL OR type = ANY(wanted)) AND (edits OR type <> 'plan.edit')
        AND (needed IS NULL OR needed <@ held) $$;

-- Every moment at which time alone moves an item: deadlines of runs, ends of back-offs, schedules, times to be claimed in,
-- and deadlines of edits.
CREATE VIEW interlock.deadlines (item, at_us) AS
    SELECT id, due_us FROM interlock.items WHERE due_us IS NOT NULL
    UNION ALL
    SELECT id, claim_by_us FROM interlock.items WHERE status = 'pending' AND claim_by_us IS NOT NULL
    UNION ALL
    SELECT edit_item, deadline_us FROM interlock.plans WHERE deadline_us IS NOT NULL;

-- Agents that may start one more run: known, not paused, below their limit. One edit of a plan does not count.
CREATE VIEW interlock.free_agents AS
    SELECT key FROM interlock.agents a
    WHERE paused_why IS NULL AND (max_concurrency IS NULL OR max_concurrency > (
        SELECT count(*) - least(count(*) FILTER (WHERE type = 'plan.edit'), 1) FROM interlock.items
        WHERE status = 'in_progress' AND run_agent = a.key));

-- Owners that cannot start now and may be overtaken: no position orders their lane, no retry keeps it.
CREATE VIEW interlock.stuck_owners AS
    SELECT id, lane FROM interlock.items o
    WHERE status IN ('pending', 'in_progress') AND lane IS NOT NULL AND status = 'pending' AND due_us IS NULL
        AND position = 2147483647 AND NOT (retry_lane = 'keep' AND attempt > 0)
        AND (NOT EXISTS (SELECT FROM interlock.ready r WHERE r.id = o.id)
            OR (agent_key <> '' AND NOT EXISTS (SELECT FROM interlock.free_agents f WHERE f.key = o.agent_key)));

DROP INDEX interlock.items_due;
CREATE INDEX items_due ON interlock.items (due_us, id) WHERE due_us IS NOT NULL;
CREATE INDEX items_running ON interlock.items (run_agent) WHERE status = 'in_progress';
-- Who could overtake an owner that cannot start.
CREATE INDEX items_behind ON interlock.items (agent_key, lane) WHERE status = 'deferred';
DROP INDEX interlock.items_owed;
DROP INDEX interlock.items_owed_task;
DROP INDEX interlock.plans_shut;
-- An agent that wants some types only does not walk past the others.
CREATE INDEX items_ready_type ON interlock.items (agent_key, type, sort_key)
    WHERE status = 'pending' AND due_us IS NULL AND plan IS NULL;
-- Lists by status, newest first. The primary key cannot give this order, so that no plan walks the whole history by it.
CREATE INDEX items_status ON interlock.items (status, (-id));
DROP INDEX interlock.items_failed;
-- Back-offs that keep their lane: pending, and not ready.
CREATE INDEX items_parked ON interlock.items (priority) WHERE status = 'pending' AND due_us IS NOT NULL;

-- The history of one item: a block range index reads all ranges in which any older item was still alive.
DROP INDEX interlock.events_item;
CREATE INDEX events_item ON interlock.events (item, seq) WHERE item IS NOT NULL;
DROP INDEX interlock.runs_item;
CREATE INDEX runs_item ON interlock.runs (item);

-- How many items there are by status and priority: the folded counts, and what changed since, which nobody waits for.
CREATE TABLE interlock.tallies (
    status   text COLLATE "C" NOT NULL,
    priority integer NOT NULL,
    n        bigint NOT NULL,
    PRIMARY KEY (status, priority)
);
CREATE TABLE interlock.tally_changes (
    status   text COLLATE "C" NOT NULL,
    priority integer NOT NULL,
    n        integer NOT NULL
);
INSERT INTO interlock.tallies SELECT status, priority, count(*) FROM interlock.items GROUP BY status, priority;
ALTER TABLE interlock.tally_changes SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0
);

-- A plan that was made for a small table must not outlive it for long.
ALTER TABLE interlock.items SET (autovacuum_analyze_threshold = 2000);
