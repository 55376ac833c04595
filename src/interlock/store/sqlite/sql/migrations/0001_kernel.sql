-- 0001 kernel: items, lanes, leases, runs, messages, agents and the history.

CREATE TABLE counters (
    name  TEXT PRIMARY KEY CHECK (name IN ('item', 'run', 'ticket')),
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO counters (name, value) VALUES ('item', 0), ('run', 0), ('ticket', 0);

CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The row that arrival, finish, expiry and cancel lock first. Never deleted.
CREATE TABLE lanes (
    lane TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;

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
    cancel_into      TEXT CHECK (cancel_into IN ('cancelled', 'superseded')),
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
    CHECK ((status = 'in_progress') = (run IS NOT NULL)),
    CHECK (status <> 'in_progress' OR (due_us IS NOT NULL AND lease_until_us IS NOT NULL AND run_agent IS NOT NULL)),
    CHECK (status <> 'deferred' OR (lane IS NOT NULL AND due_us IS NULL)),
    CHECK (status <> 'waiting' OR due_us IS NOT NULL),
    CHECK (lane IS NULL OR observed_lane IS NULL),
    CHECK ((status IN ('completed', 'failed', 'cancelled', 'superseded', 'coalesced')) = (ended_us IS NOT NULL))
) STRICT;

-- Promise 1 stands in the schema too: one active item a lane.
CREATE UNIQUE INDEX items_lane_owner ON items (lane)
    WHERE status IN ('pending', 'in_progress') AND lane IS NOT NULL;
CREATE INDEX items_ready ON items (agent_key, sort_key, type) WHERE status = 'pending' AND due_us IS NULL;
CREATE INDEX items_due ON items (status, due_us) WHERE due_us IS NOT NULL;
CREATE INDEX items_line ON items (lane, front DESC, position, ticket, id) WHERE status = 'deferred';
CREATE INDEX items_absorbable ON items (lane)
    WHERE status IN ('deferred', 'waiting') AND policy IN ('coalesce', 'supersede', 'latest');
CREATE INDEX items_observed ON items (observed_lane)
    WHERE status IN ('pending', 'in_progress') AND observed_lane IS NOT NULL;
CREATE INDEX items_owed ON items (agent_key)
    WHERE status = 'pending' AND lane IS NOT NULL AND agent_key <> '';
CREATE INDEX items_failed ON items (id) WHERE status = 'failed';

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
    PRIMARY KEY (item, n)
) STRICT, WITHOUT ROWID;

-- Ended runs, written once. A live run stands on its item's row.
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
    error      TEXT
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

CREATE TABLE agents (
    key             TEXT PRIMARY KEY,
    name            TEXT NOT NULL,
    max_concurrency INTEGER CHECK (max_concurrency > 0),
    types           TEXT NOT NULL DEFAULT '[]',
    labels          TEXT NOT NULL DEFAULT '[]',
    paused_why      TEXT,
    seen_us         INTEGER
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
