-- The rows that a claim and a finish have to write, and the indexes that keep them honest; nothing else.
CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO counters (name, value) VALUES ('run', 0);
CREATE TABLE items (
    id             INTEGER PRIMARY KEY,
    ticket         INTEGER NOT NULL,
    sort_key       INTEGER NOT NULL,
    status         TEXT    NOT NULL,
    project        TEXT    NOT NULL DEFAULT 'default',
    type           TEXT    NOT NULL DEFAULT 'task',
    title          TEXT    NOT NULL,
    agent_key      TEXT    NOT NULL DEFAULT '',
    lane           TEXT,
    policy         TEXT    NOT NULL DEFAULT 'queue',
    priority       INTEGER NOT NULL DEFAULT 5,
    attempt        INTEGER NOT NULL DEFAULT 0,
    max_attempts   INTEGER NOT NULL DEFAULT 3,
    current_run    INTEGER,
    run_agent      TEXT,
    run_started_us INTEGER,
    due_us         INTEGER
) STRICT;
CREATE INDEX items_ready ON items (agent_key, sort_key, type) WHERE status = 'pending' AND due_us IS NULL;
CREATE INDEX items_due ON items (status, due_us) WHERE due_us IS NOT NULL;
-- With lane IS NOT NULL the planner cannot take it for a way to find pending items and then sort them all.
CREATE UNIQUE INDEX items_lane_owner ON items (lane)
    WHERE status IN ('pending', 'in_progress') AND lane IS NOT NULL;
CREATE TABLE runs (
    run        INTEGER PRIMARY KEY,
    item_id    INTEGER NOT NULL,
    agent      TEXT    NOT NULL,
    started_us INTEGER NOT NULL,
    ended_us   INTEGER NOT NULL,
    status     TEXT    NOT NULL
) STRICT;
CREATE TABLE events (
    seq     INTEGER PRIMARY KEY AUTOINCREMENT,
    at_us   INTEGER NOT NULL,
    kind    TEXT    NOT NULL,
    item_id INTEGER,
    run     INTEGER,
    lane    TEXT,
    agent   TEXT,
    reason  TEXT,
    data    TEXT
) STRICT;
