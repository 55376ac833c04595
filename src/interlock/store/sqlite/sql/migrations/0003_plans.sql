-- Plans: graphs of tasks that may be edited while they run. A task is an item, and waits without a time.

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
    CHECK ((cycle_us IS NULL) = (edit_item IS NULL) AND (cycle_us IS NULL) = (deadline_us IS NULL)),
    CHECK (cycle_us IS NULL OR (editor IS NOT NULL AND ended_us IS NULL)),
    CHECK (ended_us IS NULL OR (status <> 'running' AND open_tasks = 0)),
    CHECK (answered_n <= last_n)
) STRICT;

CREATE INDEX plans_running ON plans (id) WHERE status = 'running';
CREATE INDEX plans_late ON plans (deadline_us) WHERE deadline_us IS NOT NULL;
CREATE INDEX plans_stopping ON plans (id) WHERE status = 'cancelled' AND ended_us IS NULL;

ALTER TABLE items ADD COLUMN plan INTEGER REFERENCES plans (id);

-- SQLite cannot change a CHECK; widening one in the text of the schema touches no row. (Its own documentation
-- describes this way, under "Making Other Kinds Of Table Schema Changes".)
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql,
    'CHECK (status <> ''waiting'' OR due_us IS NOT NULL)',
    'CHECK (status <> ''waiting'' OR due_us IS NOT NULL OR plan IS NOT NULL)')
WHERE type = 'table' AND name = 'items';
PRAGMA writable_schema = RESET;

DROP INDEX items_ready;
CREATE INDEX items_ready ON items (agent_key, sort_key, type)
    WHERE status = 'pending' AND due_us IS NULL AND plan IS NULL;
CREATE INDEX items_ready_task ON items (plan, agent_key, sort_key, type)
    WHERE status = 'pending' AND due_us IS NULL AND plan IS NOT NULL;

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
