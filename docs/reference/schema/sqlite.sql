-- The schema as all migrations make it, for reading; nothing runs this file. A test holds the two equal.

CREATE TABLE numbers (
    name  TEXT PRIMARY KEY CHECK (name IN ('item', 'run', 'ticket')),
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO numbers (name, value) VALUES ('item', 0), ('run', 0), ('ticket', 0);

CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- This store and its ancestors. An ancestor that was `copied` may still be in use; one that is `gone` or `sealed` is not.
CREATE TABLE stores (
    id    TEXT PRIMARY KEY,
    state TEXT NOT NULL CHECK (state IN ('this', 'copied', 'gone', 'sealed'))
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX stores_this ON stores (state) WHERE state = 'this';

-- The row that arrival, finish, expiry and cancel lock first. Never deleted.
CREATE TABLE lanes (
    lane       TEXT PRIMARY KEY,
    streak     INTEGER NOT NULL DEFAULT 0,
    streak_run INTEGER,
    last_agent TEXT,
    -- The gate of a lane, if it has one: the lane of its series, whether it is open, the types that it lets through when shut, and
    -- since when it is so.
    gate_series TEXT,
    gate_open   INTEGER,
    gate_exempt TEXT,
    gate_us     INTEGER CHECK ((gate_series IS NULL) = (gate_open IS NULL)
        AND (gate_series IS NULL) = (gate_exempt IS NULL) AND (gate_series IS NULL) = (gate_us IS NULL)),
    -- Whether a block keeps everything on it from being started.
    blocked     INTEGER NOT NULL DEFAULT 0 CHECK (blocked IN (0, 1))
) STRICT, WITHOUT ROWID;
CREATE INDEX lanes_blocked ON lanes (lane) WHERE blocked = 1;
CREATE INDEX lanes_gated ON lanes (lane) WHERE gate_series IS NOT NULL;
CREATE INDEX lanes_series ON lanes (gate_series, lane) WHERE gate_series IS NOT NULL;

CREATE TABLE plans (
    id              INTEGER PRIMARY KEY,
    project         TEXT NOT NULL,
    name            TEXT NOT NULL,
    editor          TEXT,
    edit_deadline_s REAL NOT NULL CHECK (edit_deadline_s > 0),
    status          TEXT NOT NULL CHECK (status IN ('running', 'completed', 'failed', 'partially_failed', 'cancelled')),
    created_us      INTEGER NOT NULL,
    revision        INTEGER NOT NULL CHECK (revision > 0),
    paused_why      TEXT,
    ended_us        INTEGER,
    tasks           INTEGER NOT NULL CHECK (tasks >= 0),
    edges           INTEGER NOT NULL CHECK (edges >= 0),
    open_tasks      INTEGER NOT NULL CHECK (open_tasks >= 0),
    completed       INTEGER NOT NULL CHECK (completed >= 0),
    failed          INTEGER NOT NULL CHECK (failed >= 0),
    cycle_us        INTEGER,
    deadline_us     INTEGER,
    edit_item       INTEGER,
    last_n          INTEGER NOT NULL,
    answered_n      INTEGER NOT NULL,
    edits_completed INTEGER NOT NULL,
    edits_timed_out INTEGER NOT NULL,
    edits_refused   INTEGER NOT NULL,
    edits_rebased   INTEGER NOT NULL,
    cycles          INTEGER NOT NULL,
    lock_us         INTEGER NOT NULL,
    edits_failed    INTEGER NOT NULL DEFAULT 0,
    CHECK ((cycle_us IS NULL) = (edit_item IS NULL) AND (cycle_us IS NULL) = (deadline_us IS NULL)),
    CHECK (cycle_us IS NULL OR (editor IS NOT NULL AND ended_us IS NULL)),
    CHECK (ended_us IS NULL OR (status <> 'running' AND open_tasks = 0)),
    CHECK (answered_n <= last_n)
) STRICT;

CREATE INDEX plans_running ON plans (id) WHERE status = 'running';
CREATE INDEX plans_late ON plans (deadline_us) WHERE deadline_us IS NOT NULL;
CREATE INDEX plans_stopping ON plans (id) WHERE status = 'cancelled' AND ended_us IS NULL;
CREATE INDEX plans_unended ON plans (id) WHERE ended_us IS NULL;

CREATE TABLE items (
    id               INTEGER PRIMARY KEY,
    project          TEXT NOT NULL,
    type             TEXT NOT NULL,
    title            TEXT NOT NULL,
    agent_key        TEXT NOT NULL,
    policy           TEXT NOT NULL CHECK (policy IN ('queue', 'coalesce', 'supersede', 'latest', 'reject')),
    priority         INTEGER NOT NULL,
    position         INTEGER NOT NULL,
    ticket           INTEGER NOT NULL,
    sort_key         INTEGER NOT NULL,
    lane             TEXT REFERENCES lanes (lane),
    observed_lane    TEXT REFERENCES lanes (lane),
    labels           TEXT,
    lease_s          REAL,
    timeout_s        REAL,
    max_attempts     INTEGER NOT NULL CHECK (max_attempts > 0),
    retry_lane       TEXT NOT NULL CHECK (retry_lane IN ('yield', 'keep')),
    created_us       INTEGER NOT NULL,
    status           TEXT NOT NULL CHECK (status IN ('waiting', 'deferred', 'pending', 'in_progress',
                         'completed', 'failed', 'cancelled', 'superseded', 'coalesced')),
    attempt          INTEGER NOT NULL,
    releases         INTEGER NOT NULL,
    due_us           INTEGER,
    run              INTEGER,
    run_agent        TEXT,
    run_worker       TEXT,
    run_started_us   INTEGER,
    run_lease_s      REAL,
    lease_until_us   INTEGER,
    revoke_us        INTEGER,
    cancel_into      TEXT CHECK (cancel_into IN ('cancelled', 'superseded', 'pending')),
    cancel_why       TEXT,
    absorbed_by      INTEGER,
    message_count    INTEGER NOT NULL,
    delivered        INTEGER NOT NULL,
    seen             INTEGER NOT NULL,
    front            INTEGER NOT NULL,
    promoted_from    INTEGER,
    first_claimed_us INTEGER,
    ended_us         INTEGER,
    reason           TEXT NOT NULL,
    claim_by_us      INTEGER CHECK (claim_by_us IS NULL OR (status = 'pending' AND due_us IS NULL)),
    claim_within_s   REAL
                         CHECK (claim_within_s IS NULL OR status <> 'pending' OR (claim_by_us IS NULL) = (due_us IS NOT NULL)),
    plan             INTEGER REFERENCES plans (id),
    run_bits         INTEGER,
    streak           INTEGER NOT NULL DEFAULT 0,
    last_agent       TEXT,
    gated            INTEGER NOT NULL DEFAULT 0 CHECK (gated = 0 OR (gated = 1 AND status = 'pending' AND lane IS NOT NULL)),
    -- A block of its own keeps it from being started.
    blocked          INTEGER NOT NULL DEFAULT 0 CHECK (blocked IN (0, 1)),
    CHECK ((status = 'in_progress') = (run IS NOT NULL)),
    CHECK (status <> 'in_progress' OR (run_agent IS NOT NULL AND (lease_until_us IS NULL OR due_us IS NOT NULL))),
    CHECK (status <> 'deferred' OR (lane IS NOT NULL AND due_us IS NULL)),
    CHECK (status <> 'waiting' OR due_us IS NOT NULL OR plan IS NOT NULL OR reason = 'loop'),
    CHECK (lane IS NULL OR observed_lane IS NULL),
    CHECK ((status IN ('completed', 'failed', 'cancelled', 'superseded', 'coalesced')) = (ended_us IS NOT NULL))
) STRICT;

-- Promise 1, in the schema too: one active item a lane.
CREATE UNIQUE INDEX items_lane_owner ON items (lane)
    WHERE status IN ('pending', 'in_progress') AND lane IS NOT NULL;
CREATE INDEX items_line ON items (lane, front DESC, position, ticket, id) WHERE status = 'deferred';
CREATE INDEX items_replaceable ON items (lane)
    WHERE status IN ('deferred', 'waiting') AND policy IN ('supersede', 'latest')
        AND (status = 'deferred' OR first_claimed_us IS NOT NULL OR reason = 'loop');
CREATE INDEX items_namesakes ON items (agent_key, lane, position, ticket, id) WHERE status = 'deferred';
CREATE INDEX items_retries ON items (agent_key, lane, position, ticket, id)
    WHERE status = 'waiting' AND first_claimed_us IS NOT NULL AND due_us IS NOT NULL;
CREATE INDEX items_asking ON items (id) WHERE status IN ('waiting', 'pending') AND reason = 'asked';
CREATE INDEX items_stopped ON items (lane) WHERE status = 'waiting' AND reason = 'loop';
CREATE INDEX items_observed ON items (observed_lane)
    WHERE status IN ('pending', 'in_progress') AND observed_lane IS NOT NULL;
-- Agent, project, type, labels and plan name a queue: a wish fits all of its items, or none.
CREATE INDEX items_ready ON items (agent_key, project, type, ifnull(labels, '[]'), ifnull(plan, 0), sort_key)
    WHERE status = 'pending' AND due_us IS NULL AND gated = 0 AND blocked = 0;
CREATE INDEX items_blocked ON items (id) WHERE blocked = 1;
CREATE INDEX items_gated ON items (lane) WHERE gated = 1;
CREATE INDEX items_due ON items (due_us) WHERE due_us IS NOT NULL;
CREATE INDEX items_unclaimed ON items (claim_by_us) WHERE claim_by_us IS NOT NULL;
-- External runs: under no lease, so nothing but a report, a timeout or a grace ends them.
CREATE INDEX items_external ON items (run) WHERE status = 'in_progress' AND lease_until_us IS NULL;
CREATE INDEX items_running ON items (run_agent, type) WHERE run IS NOT NULL;
CREATE INDEX items_rivals ON items (agent_key, lane, front DESC, ticket, id)
    WHERE status = 'deferred' AND position = 2147483647;
-- For listings only. The collation keeps the planner, which has no statistics, from using it wherever a status is named.
CREATE INDEX items_listed ON items (status COLLATE NOCASE, id);
-- What refers to items that may go.
CREATE INDEX items_absorbed ON items (absorbed_by) WHERE absorbed_by IS NOT NULL;
CREATE INDEX items_of_plan ON items (plan) WHERE plan IS NOT NULL;

-- How many items there are, kept by the triggers below.
CREATE TABLE tallies (
    status    TEXT NOT NULL,
    priority  INTEGER NOT NULL,
    scheduled INTEGER NOT NULL,
    n         INTEGER NOT NULL,
    PRIMARY KEY (status, priority, scheduled)
) STRICT, WITHOUT ROWID;

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

CREATE TABLE payloads (
    item    INTEGER PRIMARY KEY REFERENCES items (id),
    payload TEXT NOT NULL
) STRICT;

CREATE TABLE messages (
    item   INTEGER NOT NULL REFERENCES items (id),
    n      INTEGER NOT NULL CHECK (n > 0),
    ticket INTEGER NOT NULL,
    text   TEXT NOT NULL,
    author TEXT NOT NULL,
    origin INTEGER NOT NULL,
    at_us  INTEGER NOT NULL,
    sender TEXT NOT NULL DEFAULT 'person' CHECK (sender IN ('person', 'agent', 'bot', 'system', 'outsider')),
    agent  TEXT NOT NULL DEFAULT '' CHECK ((sender = 'agent') = (agent <> '')),
    reason TEXT NOT NULL DEFAULT '',
    url    TEXT NOT NULL DEFAULT '',
    said   TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (item, n)
) STRICT, WITHOUT ROWID;

CREATE INDEX messages_origin ON messages (origin) WHERE origin <> item;

-- Ended runs, written once. A live run is part of its item's row.
CREATE TABLE runs (
    run        INTEGER PRIMARY KEY,
    item       INTEGER NOT NULL,
    attempt    INTEGER NOT NULL,
    agent      TEXT NOT NULL,
    worker     TEXT,
    started_us INTEGER NOT NULL,
    ended_us   INTEGER NOT NULL,
    status     TEXT NOT NULL CHECK (status IN ('succeeded', 'failed', 'cancelled', 'timed_out', 'lost', 'released')),
    reason     TEXT NOT NULL,
    result     TEXT,
    error      TEXT,
    bits       INTEGER
) STRICT;

CREATE INDEX runs_item ON runs (item);

CREATE TABLE events (
    seq     INTEGER PRIMARY KEY AUTOINCREMENT,
    at_us   INTEGER NOT NULL,
    kind    TEXT NOT NULL,
    reason  TEXT NOT NULL,
    project TEXT,
    item    INTEGER,
    run     INTEGER,
    lane    TEXT,
    agent   TEXT,
    span_us INTEGER,
    data    TEXT
) STRICT;

CREATE INDEX events_item ON events (item);

CREATE TABLE dedupe_keys (
    project    TEXT NOT NULL,
    key        TEXT NOT NULL,
    item       INTEGER NOT NULL,
    expires_us INTEGER NOT NULL,
    PRIMARY KEY (project, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX dedupe_keys_expiry ON dedupe_keys (expires_us);
CREATE INDEX dedupe_keys_item ON dedupe_keys (item);

CREATE TABLE pools (
    name            TEXT PRIMARY KEY,
    max_concurrency INTEGER NOT NULL CHECK (max_concurrency > 0)
) STRICT, WITHOUT ROWID;

CREATE TABLE agents (
    key             TEXT PRIMARY KEY,
    name            TEXT NOT NULL,
    max_concurrency INTEGER CHECK (max_concurrency > 0),
    types           TEXT NOT NULL DEFAULT '[]',
    labels          TEXT NOT NULL DEFAULT '[]',
    paused_why      TEXT,
    seen_us         INTEGER,
    wall_us         INTEGER,
    wall_why        TEXT,
    pool            TEXT REFERENCES pools (name),
    overtake_after_s REAL CHECK (overtake_after_s >= 0)
) STRICT, WITHOUT ROWID;

CREATE TABLE paused_projects (
    project TEXT PRIMARY KEY,
    why     TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE modes (
    scope TEXT NOT NULL CHECK (scope IN ('project', 'lane')),
    value TEXT NOT NULL,
    mode  TEXT NOT NULL CHECK (mode IN ('off', 'observe', 'enforce')),
    PRIMARY KEY (scope, value)
) STRICT, WITHOUT ROWID;

CREATE TABLE tasks (
    item             INTEGER PRIMARY KEY REFERENCES items (id),
    plan             INTEGER NOT NULL REFERENCES plans (id),
    key              TEXT NOT NULL,
    rank             INTEGER NOT NULL,
    unmet            INTEGER NOT NULL CHECK (unmet >= 0),
    broken           INTEGER NOT NULL CHECK (broken >= 0),
    doomed           INTEGER NOT NULL,
    added_revision   INTEGER NOT NULL,
    removed_revision INTEGER
) STRICT;

CREATE UNIQUE INDEX tasks_key ON tasks (plan, key) WHERE removed_revision IS NULL;
CREATE INDEX tasks_plan ON tasks (plan, item);
CREATE INDEX tasks_doomed ON tasks (plan) WHERE doomed = 1;

CREATE TABLE edges (
    source    INTEGER NOT NULL REFERENCES tasks (item),
    target    INTEGER NOT NULL REFERENCES tasks (item),
    plan      INTEGER NOT NULL REFERENCES plans (id),
    "when"    TEXT NOT NULL CHECK ("when" IN ('success', 'completion', 'failure')),
    on_cancel TEXT NOT NULL CHECK (on_cancel IN ('block', 'satisfy')),
    state     TEXT NOT NULL CHECK (state IN ('open', 'satisfied', 'broken')),
    PRIMARY KEY (source, target),
    CHECK (source <> target)
) STRICT, WITHOUT ROWID;

CREATE INDEX edges_target ON edges (target);
CREATE INDEX edges_plan ON edges (plan);

CREATE TABLE revisions (
    plan       INTEGER NOT NULL REFERENCES plans (id),
    revision   INTEGER NOT NULL,
    base       INTEGER NOT NULL,
    at_us      INTEGER NOT NULL,
    "by"       TEXT,
    run        INTEGER,
    why        TEXT NOT NULL,
    operations TEXT,
    PRIMARY KEY (plan, revision)
) STRICT, WITHOUT ROWID;

CREATE TABLE completions (
    plan   INTEGER NOT NULL REFERENCES plans (id),
    n      INTEGER NOT NULL,
    item   INTEGER NOT NULL REFERENCES tasks (item),
    key    TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('completed', 'failed', 'cancelled')),
    at_us  INTEGER NOT NULL,
    PRIMARY KEY (plan, n)
) STRICT, WITHOUT ROWID;

CREATE INDEX completions_item ON completions (item);

-- Plans that give out tasks: running, in no edit cycle, not paused.
CREATE VIEW open_plans AS
SELECT * FROM plans WHERE status = 'running' AND cycle_us IS NULL AND paused_why IS NULL;

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

-- In a queue: pending, not scheduled, not gated and not blocked. The project or the plan may still hold back the whole queue.
CREATE VIEW queued AS
SELECT id, sort_key, agent_key, project, type, ifnull(labels, '[]') AS labels, ifnull(plan, 0) AS plan FROM items INDEXED BY items_ready
WHERE status = 'pending' AND due_us IS NULL AND gated = 0 AND blocked = 0;

-- The queue of an item, by its id.
CREATE VIEW queue_of AS
SELECT id, sort_key, agent_key, project, type, ifnull(labels, '[]') AS labels, ifnull(plan, 0) AS plan FROM items NOT INDEXED;

-- Items, by their id, that neither their project nor their plan nor their lane's gate nor a block holds back, whatever their status. A
-- deferred item has no flag of its lane yet.
CREATE VIEW ungated AS
SELECT * FROM items NOT INDEXED
WHERE gated = 0 AND blocked = 0 AND project NOT IN (SELECT project FROM paused_projects)
    AND (plan IS NULL OR EXISTS (SELECT 1 FROM open_plans WHERE open_plans.id = items.plan))
    AND (status <> 'deferred' OR NOT EXISTS (SELECT 1 FROM lanes WHERE lanes.lane = items.lane
        AND (blocked = 1 OR (gate_open = 0 AND items.type NOT IN (SELECT value FROM json_each(gate_exempt))))));

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

-- Lanes whose owner contradicts their gate or their block: its flag is wrong, or its run may not go on and was not asked to stop.
CREATE VIEW misgated AS
SELECT o.lane, o.id FROM owners o JOIN lanes l ON l.lane = o.lane
WHERE CASE WHEN o.status = 'pending'
    THEN o.gated <> (l.blocked OR NOT (ifnull(l.gate_open, 1) = 1 OR o.type IN (SELECT value FROM json_each(l.gate_exempt))))
    ELSE o.cancel_into IS NULL AND NOT (ifnull(l.gate_open, 1) = 1 OR o.type IN (SELECT value FROM json_each(l.gate_exempt))) END;

-- How many runs the agents of each pool have together. One edit of a plan of each agent does not count.
CREATE VIEW pool_runs AS
SELECT p.name, p.max_concurrency, (
    SELECT ifnull(sum((SELECT count(*) - min(count(*) FILTER (WHERE type = 'plan.edit'), 1) FROM items INDEXED BY items_running
        WHERE run IS NOT NULL AND run_agent = a.key)), 0)
    FROM agents a WHERE a.pool = p.name) AS running
FROM pools p;

-- Agents that may start one more run: known, not paused, below their limit and that of their pool. One edit of a plan does
-- not count.
CREATE VIEW free_agents AS
SELECT key FROM agents
WHERE paused_why IS NULL AND (max_concurrency IS NULL OR max_concurrency > (
    SELECT count(*) - min(count(*) FILTER (WHERE type = 'plan.edit'), 1) FROM items INDEXED BY items_running
    WHERE run IS NOT NULL AND run_agent = agents.key))
    AND (pool IS NULL OR EXISTS (SELECT 1 FROM pool_runs r WHERE r.name = agents.pool AND r.running < r.max_concurrency));


-- For each notice, by its setting: the last event that was dealt with, who has it leased until when, and how often the next one was
-- tried. `until_us` without a token is the wait after a failed try.
CREATE TABLE marks (
    name     TEXT PRIMARY KEY,
    seq      INTEGER NOT NULL,
    token    INTEGER,
    until_us INTEGER NOT NULL DEFAULT 0,
    tries    INTEGER NOT NULL DEFAULT 0 CHECK (tries >= 0)
) STRICT, WITHOUT ROWID;

-- Workers that were seen lately. A worker says every few seconds that it is there, and says goodbye when it ends.
CREATE TABLE workers (
    name       TEXT PRIMARY KEY,
    host       TEXT NOT NULL,
    pid        INTEGER NOT NULL,
    folder     TEXT NOT NULL,
    agent      TEXT NOT NULL,
    slots      INTEGER NOT NULL,
    runs       INTEGER NOT NULL,
    started_us INTEGER NOT NULL,
    seen_us    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX workers_seen ON workers (seen_us);
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
            OR EXISTS (SELECT 1 FROM items r INDEXED BY items_running WHERE r.run IS NOT NULL AND r.run_agent = o.agent) THEN NULL
        ELSE max(ifnull(seen_us, created_us) + CAST(ifnull(overtake_after_s, 60) * 1000000 AS INTEGER),
            ifnull((SELECT max(w.seen_us) FROM workers w WHERE w.agent = o.agent) + 30000000, 0)) END AS gone_us
FROM (
    SELECT i.*, a.key AS agent, a.overtake_after_s, a.seen_us, a.wall_us, i.position < 2147483647 OR i.retry_lane = 'keep' AS firm,
        i.agent_key <> '' AND (a.key IS NULL OR (a.types <> '[]' AND i.type NOT IN (SELECT value FROM json_each(a.types)))
            OR (NOT (i.type = 'hold' AND EXISTS (SELECT 1 FROM json_each(i.labels) AS l WHERE l.value = 'hold'))
                AND EXISTS (SELECT 1 FROM json_each(i.labels) AS l WHERE l.value NOT IN (SELECT value FROM json_each(a.labels))))) AS unable
    FROM owners i LEFT JOIN agents a ON a.key = i.agent_key
    WHERE i.status = 'pending' AND i.due_us IS NULL) AS o;

-- Repositories by the number that a rename leaves alone. Their lanes keep the name of the first sight.
CREATE TABLE github_repositories (
    id        INTEGER PRIMARY KEY,
    name      TEXT NOT NULL,
    lane_name TEXT NOT NULL UNIQUE,
    swept_to  TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX github_repositories_name ON github_repositories (name);

-- Deliveries by GitHub's id. The body goes when it was decided on; the id stays, for it may come again.
-- With a body and no time, too many tries have failed.
CREATE TABLE github_deliveries (
    id          TEXT PRIMARY KEY,
    event       TEXT NOT NULL,
    repository  INTEGER,
    number      INTEGER,
    received_us INTEGER NOT NULL,
    due_us      INTEGER,
    tries       INTEGER NOT NULL DEFAULT 0,
    outcome     TEXT,
    body        TEXT,
    CHECK (due_us IS NULL OR body IS NOT NULL)
) STRICT;
CREATE INDEX github_deliveries_due ON github_deliveries (due_us) WHERE due_us IS NOT NULL;
CREATE INDEX github_deliveries_kept ON github_deliveries (received_us) WHERE body IS NOT NULL;
CREATE INDEX github_deliveries_of_number ON github_deliveries (repository, number, received_us) WHERE body IS NOT NULL;
CREATE INDEX github_deliveries_decided ON github_deliveries (received_us) WHERE body IS NULL;

-- Issues and pull requests as they were read last, and the items that they wanted then.
CREATE TABLE github_numbers (
    repository INTEGER NOT NULL REFERENCES github_repositories (id),
    number     INTEGER NOT NULL,
    revision   INTEGER NOT NULL,
    facts      TEXT NOT NULL,
    wanted     TEXT NOT NULL,
    read_us    INTEGER NOT NULL,
    last_place INTEGER NOT NULL,
    PRIMARY KEY (repository, number)
) STRICT, WITHOUT ROWID;

-- What follows from a change or a remark, in order: written with the change, carried out after it.
-- With neither time, too many tries have failed.
CREATE TABLE github_consequences (
    repository INTEGER NOT NULL,
    number     INTEGER NOT NULL,
    place      INTEGER NOT NULL,
    name       TEXT NOT NULL,
    data       TEXT NOT NULL,
    due_us     INTEGER,
    done_us    INTEGER,
    tries      INTEGER NOT NULL DEFAULT 0,
    item       INTEGER,
    outcome    TEXT,
    PRIMARY KEY (repository, number, place),
    UNIQUE (repository, number, name),
    FOREIGN KEY (repository, number) REFERENCES github_numbers (repository, number),
    CHECK (due_us IS NULL OR done_us IS NULL)
) STRICT, WITHOUT ROWID;
CREATE INDEX github_consequences_due ON github_consequences (due_us) WHERE due_us IS NOT NULL;
CREATE INDEX github_consequences_owed ON github_consequences (repository, number, place) WHERE done_us IS NULL;
CREATE INDEX github_consequences_done ON github_consequences (done_us) WHERE done_us IS NOT NULL;

-- What the rules of a repository say that it is shown; without a row, nothing.
CREATE TABLE github_choices (
    repository  INTEGER PRIMARY KEY REFERENCES github_repositories (id),
    comments    INTEGER NOT NULL CHECK (comments IN (0, 1)),
    lane_status INTEGER NOT NULL CHECK (lane_status IN (0, 1))
) STRICT;

-- The issues that open pull requests close, as they were read last.
CREATE TABLE github_closes (
    repository INTEGER NOT NULL,
    issue      INTEGER NOT NULL,
    pull       INTEGER NOT NULL,
    PRIMARY KEY (repository, issue, pull),
    FOREIGN KEY (repository, pull) REFERENCES github_numbers (repository, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX github_closes_of_pull ON github_closes (repository, pull);

-- The reaction that says that a run is at work, from before it is there until it is gone.
CREATE TABLE github_signs (
    run        INTEGER PRIMARY KEY,
    item       INTEGER NOT NULL,
    repository INTEGER NOT NULL REFERENCES github_repositories (id),
    number     INTEGER NOT NULL,
    kind       TEXT NOT NULL,
    subject    INTEGER NOT NULL,
    reaction   INTEGER
) STRICT;
CREATE INDEX github_signs_subject ON github_signs (repository, kind, subject);

-- Accounts at GitHub that runs on lanes write with, as their workers report them. Logins are in lower case.
CREATE TABLE github_accounts (
    run      INTEGER PRIMARY KEY,
    item     INTEGER NOT NULL,
    lane     TEXT NOT NULL,
    account  TEXT NOT NULL,
    since_us INTEGER NOT NULL
) STRICT;
CREATE INDEX github_accounts_lane ON github_accounts (lane, account, run);
CREATE INDEX github_accounts_item ON github_accounts (item);

-- One queue for each number (0: the repository itself). Whoever sends has it leased: it is not due until then.
CREATE TABLE github_outboxes (
    repository INTEGER NOT NULL REFERENCES github_repositories (id),
    number     INTEGER NOT NULL,
    last_place INTEGER NOT NULL,
    due_us     INTEGER,
    token      TEXT,
    PRIMARY KEY (repository, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX github_outboxes_due ON github_outboxes (due_us) WHERE due_us IS NOT NULL;

-- What is to be done at GitHub. With a time in `dead_us` it waits for a person.
CREATE TABLE github_effects (
    repository INTEGER NOT NULL,
    number     INTEGER NOT NULL,
    place      INTEGER NOT NULL,
    name       TEXT NOT NULL,
    kind       TEXT NOT NULL,
    thing      TEXT NOT NULL,
    data       TEXT NOT NULL,
    run        INTEGER,
    owed_us    INTEGER NOT NULL,
    after_us   INTEGER,
    tries      INTEGER NOT NULL DEFAULT 0,
    sent_us    INTEGER,
    made       INTEGER,
    done_us    INTEGER,
    dead_us    INTEGER,
    outcome    TEXT,
    PRIMARY KEY (repository, number, place),
    UNIQUE (repository, number, name),
    FOREIGN KEY (repository, number) REFERENCES github_outboxes (repository, number),
    CHECK (done_us IS NULL OR dead_us IS NULL)
) STRICT, WITHOUT ROWID;
CREATE INDEX github_effects_owed ON github_effects (repository, number, place) WHERE done_us IS NULL AND dead_us IS NULL;
CREATE INDEX github_effects_dead ON github_effects (dead_us) WHERE dead_us IS NOT NULL;
CREATE INDEX github_effects_done ON github_effects (done_us) WHERE done_us IS NOT NULL;
CREATE INDEX github_effects_sent ON github_effects (sent_us) WHERE sent_us IS NOT NULL;
CREATE INDEX github_effects_thing ON github_effects (repository, number, thing, place) WHERE thing <> '';

-- What was seen and counted of a series, by its lane. It decides nothing about who has the lane.
CREATE TABLE series_notes (
    lane     TEXT PRIMARY KEY,
    revision INTEGER NOT NULL CHECK (revision > 0),
    data     TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Answers of GitHub with their ETags: an unchanged one costs nothing of the allowance.
CREATE TABLE github_answers (
    key     TEXT PRIMARY KEY,
    etag    TEXT NOT NULL,
    link    TEXT,
    body    BLOB NOT NULL,
    kept_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX github_answers_kept ON github_answers (kept_us);

-- A pull request, whose head moves, or a commit in none (number 0). Checks are followed where a run is linked to it.
CREATE TABLE github_heads (
    repository INTEGER NOT NULL REFERENCES github_repositories (id),
    number     INTEGER NOT NULL,
    commit_id  TEXT NOT NULL,
    revision   INTEGER NOT NULL,
    head       TEXT NOT NULL,
    branch     TEXT NOT NULL,
    url        TEXT NOT NULL,
    outcome    TEXT,
    ci_outcome TEXT,
    ci_why     TEXT NOT NULL,
    followed   INTEGER NOT NULL,
    head_us    INTEGER NOT NULL,
    ci_us      INTEGER NOT NULL,
    looked_us  INTEGER NOT NULL,
    PRIMARY KEY (repository, number, commit_id),
    CHECK ((number = 0) = (commit_id <> '')),
    CHECK ((number = 0) = (outcome IS NULL)),
    CHECK (outcome IN ('open', 'merged', 'closed')),
    CHECK (ci_outcome IN ('pending', 'success', 'failure', 'cancelled'))
) STRICT, WITHOUT ROWID;
CREATE INDEX github_heads_open ON github_heads (looked_us) WHERE followed = 1 AND (outcome = 'open' OR (number = 0 AND ci_outcome = 'pending'));
CREATE INDEX github_heads_commits ON github_heads (head_us) WHERE number = 0;

-- Runs that a pull request or a commit comes from, and how that was found.
CREATE TABLE github_links (
    run        INTEGER NOT NULL,
    repository INTEGER NOT NULL,
    number     INTEGER NOT NULL,
    commit_id  TEXT NOT NULL,
    item       INTEGER NOT NULL,
    how        TEXT NOT NULL,
    linked_us  INTEGER NOT NULL,
    PRIMARY KEY (run, repository, number, commit_id),
    FOREIGN KEY (repository, number, commit_id) REFERENCES github_heads (repository, number, commit_id),
    CHECK (how IN ('trailer', 'branch', 'closes'))
) STRICT, WITHOUT ROWID;
CREATE INDEX github_links_item ON github_links (item);
CREATE INDEX github_links_head ON github_links (repository, number, commit_id);

-- Workflow runs of followed heads in their newest attempts, with where their logs and artifacts are, and until when.
CREATE TABLE github_workflow_runs (
    repository    INTEGER NOT NULL REFERENCES github_repositories (id),
    id            INTEGER NOT NULL,
    head          TEXT NOT NULL,
    attempt       INTEGER NOT NULL,
    name          TEXT NOT NULL,
    status        TEXT NOT NULL,
    conclusion    TEXT,
    url           TEXT NOT NULL,
    logs_url      TEXT NOT NULL,
    logs_until_us INTEGER NOT NULL,
    artifacts     TEXT NOT NULL,
    begun_us      INTEGER NOT NULL,
    PRIMARY KEY (repository, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX github_workflow_runs_head ON github_workflow_runs (head, id);
CREATE INDEX github_workflow_runs_begun ON github_workflow_runs (begun_us);

-- Links with what they lead to. `newest` marks the one that speaks for its item: of the pull request that was opened last.
CREATE VIEW github_followed AS
SELECT l.run, l.item, l.repository, l.number, l.commit_id, l.how, l.linked_us, r.name, h.head, h.branch, h.url,
    h.outcome, h.ci_outcome, h.ci_why, h.head_us, h.ci_us,
    NOT EXISTS (SELECT 1 FROM github_links o WHERE o.item = l.item
        AND (o.number, o.run, o.linked_us, o.commit_id) > (l.number, l.run, l.linked_us, l.commit_id)) AS newest
FROM github_links l
JOIN github_heads h ON h.repository = l.repository AND h.number = l.number AND h.commit_id = l.commit_id
JOIN github_repositories r ON r.id = l.repository;

-- What was applied, with a checksum of its text. Made by the program, before the first migration.
CREATE TABLE migrations (
    version    INTEGER PRIMARY KEY,
    name       TEXT NOT NULL,
    checksum   TEXT NOT NULL,
    applied_us INTEGER NOT NULL,
    serves     INTEGER
) STRICT;

-- Version 0.1.0 looks for work by the old name before it draws a number, and that refuses it in words.
CREATE VIEW stuck_owners AS SELECT id, lane, until_us FROM unstarted_owners;

-- Version 0.1.0 draws numbers by the old name, and gets an error that says why.
CREATE VIEW counters AS SELECT name, value FROM numbers;
CREATE TRIGGER counters_of_older_versions INSTEAD OF UPDATE ON counters
BEGIN
    SELECT RAISE(ABORT, 'the database was upgraded for newer versions than this one (0.1.0), so install a newer Interlock');
END;

-- When the next effect may be sent: GitHub allows one account about 80 creations a minute and 500 an hour.
CREATE VIEW github_pace AS
SELECT max(
    coalesce((SELECT sent_us FROM github_effects WHERE sent_us IS NOT NULL ORDER BY sent_us DESC LIMIT 1 OFFSET 79) + 60000000, 0),
    coalesce((SELECT sent_us FROM github_effects WHERE sent_us IS NOT NULL ORDER BY sent_us DESC LIMIT 1 OFFSET 499) + 3600000000, 0)
) AS free_us;

-- A current run has bits, and nothing else has. 0.1.0 knows no bits, and so neither begins nor ends a run.
CREATE TRIGGER items_have_bits_with_a_run BEFORE UPDATE OF run ON items WHEN (NEW.run IS NULL) <> (NEW.run_bits IS NULL)
BEGIN
    SELECT RAISE(ABORT, 'the database was upgraded for newer versions than this one (0.1.0), so install a newer Interlock');
END;

-- Tokens. Only a hash of each is here.
CREATE TABLE tokens (
    id         TEXT PRIMARY KEY,
    name       TEXT NOT NULL,
    scope      TEXT NOT NULL,
    hash       TEXT NOT NULL,
    created_us INTEGER NOT NULL,
    expires_us INTEGER,
    used_us    INTEGER,
    revoked_us INTEGER,
    CHECK (length(hash) = 64)
) STRICT, WITHOUT ROWID;
CREATE INDEX tokens_created ON tokens (created_us);
CREATE INDEX tokens_open ON tokens (expires_us) WHERE revoked_us IS NULL;

-- Sessions and links. Each has the scope of its token, and ends with it. Only a hash of each is here.
CREATE TABLE sessions (
    id         TEXT PRIMARY KEY,
    token      TEXT NOT NULL REFERENCES tokens (id),
    kind       TEXT NOT NULL,
    hash       TEXT NOT NULL,
    created_us INTEGER NOT NULL,
    expires_us INTEGER NOT NULL,
    CHECK (kind IN ('link', 'session')),
    CHECK (length(hash) = 64)
) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_of_token ON sessions (token, kind, created_us, id);
CREATE INDEX sessions_expire ON sessions (expires_us);

-- Requests that were carried out, with their answers; written in the transaction that carried them out.
CREATE TABLE requests (
    key    TEXT PRIMARY KEY,
    asked  TEXT NOT NULL,
    answer TEXT NOT NULL,
    at_us  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX requests_at ON requests (at_us);

-- The labels that numbers have. A bounded number of them; what comes later is counted as `other`.
CREATE TABLE metric_labels (
    id       INTEGER PRIMARY KEY,
    project  TEXT NOT NULL,
    type     TEXT NOT NULL,
    agent    TEXT NOT NULL,
    priority TEXT NOT NULL,
    UNIQUE (project, type, agent, priority)
) STRICT;

-- How often something happened. `value` tells cases of one metric apart; of a histogram it is a bound, or `sum_us`.
CREATE TABLE metric_counts (
    metric TEXT NOT NULL,
    value  TEXT NOT NULL,
    labels INTEGER NOT NULL REFERENCES metric_labels (id),
    n      INTEGER NOT NULL CHECK (n >= 0),
    PRIMARY KEY (metric, value, labels)
) STRICT, WITHOUT ROWID;

-- The numbers at one minute. `arrivals` and the columns after it count from the beginning of counting.
CREATE TABLE trend (
    minute      INTEGER PRIMARY KEY,
    ready       INTEGER NOT NULL,
    waiting     INTEGER NOT NULL,
    running     INTEGER NOT NULL,
    oldest_us   INTEGER NOT NULL,
    arrivals    INTEGER NOT NULL,
    claims      INTEGER NOT NULL,
    completions INTEGER NOT NULL,
    failures    INTEGER NOT NULL
) STRICT;

-- The total of each run that reported one. A report is accepted after the run has ended too.
CREATE TABLE run_costs (
    run           INTEGER PRIMARY KEY,
    item          INTEGER NOT NULL,
    agent         TEXT NOT NULL,
    micro_usd     INTEGER NOT NULL CHECK (micro_usd >= 0),
    input_tokens  INTEGER NOT NULL CHECK (input_tokens >= 0),
    output_tokens INTEGER NOT NULL CHECK (output_tokens >= 0),
    reported_us   INTEGER NOT NULL
) STRICT;
CREATE INDEX run_costs_item ON run_costs (item);
CREATE INDEX run_costs_reported ON run_costs (reported_us);

-- The sums of each agent, pool and project by day. They stay when items are deleted.
CREATE TABLE spending (
    scope         TEXT NOT NULL CHECK (scope IN ('agent', 'pool', 'project')),
    name          TEXT NOT NULL,
    day           TEXT NOT NULL CHECK (length(day) = 10),
    micro_usd     INTEGER NOT NULL,
    input_tokens  INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    PRIMARY KEY (scope, name, day)
) STRICT;
CREATE INDEX spending_day ON spending (day DESC, scope, name);

-- What is kept of a run's output. No column refers to `items`: only a current run writes, and an item with one is not deleted.
CREATE TABLE run_logs (
    run       INTEGER PRIMARY KEY,
    item      INTEGER NOT NULL,
    size      INTEGER NOT NULL,
    last_line TEXT NOT NULL,
    pieces    INTEGER NOT NULL,
    at_us     INTEGER NOT NULL
) STRICT;
CREATE INDEX run_logs_item ON run_logs (item);

-- The pieces of it, by where they begin.
CREATE TABLE run_log_pieces (
    run   INTEGER NOT NULL REFERENCES run_logs (run) ON DELETE CASCADE,
    start INTEGER NOT NULL,
    text  TEXT NOT NULL,
    PRIMARY KEY (run, start)
) STRICT;

CREATE TABLE budgets (
    scope      TEXT NOT NULL CHECK (scope IN ('agent', 'pool', 'project')),
    name       TEXT NOT NULL,
    per        TEXT NOT NULL CHECK (per IN ('day', 'month')),
    micro_usd  INTEGER NOT NULL CHECK (micro_usd >= 0),
    when_spent TEXT NOT NULL CHECK (when_spent IN ('finish', 'cancel')),
    PRIMARY KEY (scope, name, per)
) STRICT;

-- What a live run of a type holds back of the budgets that it counts for, less what it has reported.
CREATE TABLE reserves (
    type      TEXT PRIMARY KEY,
    micro_usd INTEGER NOT NULL CHECK (micro_usd > 0)
) STRICT;

-- What live runs hold back.
CREATE VIEW reserved_runs AS
    SELECT i.run, i.run_agent, i.project, max(r.micro_usd - coalesce(c.micro_usd, 0), 0) AS micro_usd
    FROM items i INDEXED BY items_running JOIN reserves r ON r.type = i.type LEFT JOIN run_costs c ON c.run = i.run
    WHERE i.run IS NOT NULL;

-- Each budget with what live runs hold back of it.
CREATE VIEW budget_use AS
    SELECT b.*, CASE b.scope
        WHEN 'agent' THEN (SELECT sum(r.micro_usd) FROM reserved_runs r WHERE r.run_agent = b.name)
        WHEN 'pool' THEN (SELECT sum(r.micro_usd) FROM agents a JOIN reserved_runs r ON r.run_agent = a.key WHERE a.pool = b.name)
        ELSE (SELECT sum(r.micro_usd) FROM reserved_runs r WHERE r.project = b.name) END AS reserved
    FROM budgets b;

-- In which time zone days and months begin. Without a row it is UTC.
CREATE TABLE calendars (
    name      TEXT PRIMARY KEY CHECK (name = 'store'),
    time_zone TEXT NOT NULL
) STRICT;
CREATE INDEX items_asking_live ON items (id) WHERE status = 'in_progress' AND reason = 'asked';
