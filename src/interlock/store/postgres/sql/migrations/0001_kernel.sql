-- 0001 kernel: items, lanes, leases, runs, messages, agents and the history.

CREATE SCHEMA IF NOT EXISTS interlock;

-- No cache: a number given out later is greater, whichever connection asked.
CREATE SEQUENCE interlock.item_ids;
CREATE SEQUENCE interlock.run_numbers;
CREATE SEQUENCE interlock.tickets;

-- Microseconds since 1970, now and not at the start of the transaction.
CREATE FUNCTION interlock.now_us() RETURNS bigint LANGUAGE sql VOLATILE
    AS $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint $$;

CREATE TABLE interlock.meta (
    name  text PRIMARY KEY,
    value text NOT NULL
);

-- The row that arrival, finish, expiry and cancel lock first. Never deleted.
CREATE TABLE interlock.lanes (
    lane text COLLATE "C" PRIMARY KEY
);

CREATE TABLE interlock.items (
    id               bigint PRIMARY KEY,
    project          text COLLATE "C" NOT NULL,
    type             text COLLATE "C" NOT NULL,
    title            text NOT NULL,
    agent_key        text COLLATE "C" NOT NULL,
    policy           text COLLATE "C" NOT NULL CHECK (policy IN ('queue', 'coalesce', 'supersede', 'latest', 'reject')),
    priority         integer NOT NULL,
    position         integer NOT NULL,
    ticket           bigint NOT NULL,
    sort_key         bigint NOT NULL,
    lane             text COLLATE "C" REFERENCES interlock.lanes (lane),
    observed_lane    text COLLATE "C" REFERENCES interlock.lanes (lane),
    labels           text[],
    lease_s          double precision,
    timeout_s        double precision,
    max_attempts     integer NOT NULL CHECK (max_attempts > 0),
    retry_lane       text NOT NULL CHECK (retry_lane IN ('yield', 'keep')),
    created_us       bigint NOT NULL,
    status           text COLLATE "C" NOT NULL CHECK (status IN ('waiting', 'deferred', 'pending', 'in_progress',
                         'completed', 'failed', 'cancelled', 'superseded', 'coalesced')),
    attempt          integer NOT NULL,
    releases         integer NOT NULL,
    due_us           bigint,
    run              bigint,
    run_agent        text COLLATE "C",
    run_worker       text,
    run_started_us   bigint,
    run_lease_s      double precision,
    lease_until_us   bigint,
    revoke_us        bigint,
    cancel_into      text CHECK (cancel_into IN ('cancelled', 'superseded')),
    cancel_why       text,
    absorbed_by      bigint,
    message_count    integer NOT NULL,
    delivered        integer NOT NULL,
    seen             integer NOT NULL,
    front            boolean NOT NULL,
    promoted_from    bigint,
    first_claimed_us bigint,
    ended_us         bigint,
    reason           text NOT NULL,
    CHECK ((status = 'in_progress') = (run IS NOT NULL)),
    CHECK (status <> 'in_progress' OR (due_us IS NOT NULL AND lease_until_us IS NOT NULL AND run_agent IS NOT NULL)),
    CHECK (status <> 'deferred' OR (lane IS NOT NULL AND due_us IS NULL)),
    CHECK (status <> 'waiting' OR due_us IS NOT NULL),
    CHECK (lane IS NULL OR observed_lane IS NULL),
    CHECK ((status IN ('completed', 'failed', 'cancelled', 'superseded', 'coalesced')) = (ended_us IS NOT NULL))
);

-- Promise 1 stands in the schema too: one active item a lane.
CREATE UNIQUE INDEX items_lane_owner ON interlock.items (lane)
    WHERE status IN ('pending', 'in_progress') AND lane IS NOT NULL;
CREATE INDEX items_ready ON interlock.items (agent_key, sort_key, type) WHERE status = 'pending' AND due_us IS NULL;
CREATE INDEX items_due ON interlock.items (status, due_us) WHERE due_us IS NOT NULL;
CREATE INDEX items_line ON interlock.items (lane, front DESC, position, ticket, id) WHERE status = 'deferred';
CREATE INDEX items_absorbable ON interlock.items (lane)
    WHERE status IN ('deferred', 'waiting') AND policy IN ('coalesce', 'supersede', 'latest');
CREATE INDEX items_observed ON interlock.items (observed_lane)
    WHERE status IN ('pending', 'in_progress') AND observed_lane IS NOT NULL;
CREATE INDEX items_owed ON interlock.items (agent_key)
    WHERE status = 'pending' AND lane IS NOT NULL AND agent_key <> '';
CREATE INDEX items_failed ON interlock.items (id) WHERE status = 'failed';

CREATE TABLE interlock.payloads (
    item    bigint PRIMARY KEY REFERENCES interlock.items (id),
    payload text NOT NULL
);

CREATE TABLE interlock.messages (
    item   bigint NOT NULL REFERENCES interlock.items (id),
    n      integer NOT NULL CHECK (n > 0),
    ticket bigint NOT NULL,
    text   text NOT NULL,
    author text NOT NULL,
    origin bigint NOT NULL,
    at_us  bigint NOT NULL,
    PRIMARY KEY (item, n)
);

-- Ended runs, written once. A live run stands on its item's row.
CREATE TABLE interlock.runs (
    run        bigint PRIMARY KEY,
    item       bigint NOT NULL,
    attempt    integer NOT NULL,
    agent      text NOT NULL,
    worker     text,
    started_us bigint NOT NULL,
    ended_us   bigint NOT NULL,
    status     text COLLATE "C" NOT NULL CHECK (status IN ('succeeded', 'failed', 'cancelled', 'timed_out', 'lost', 'released')),
    reason     text NOT NULL,
    result     text,
    error      text
);

CREATE INDEX runs_item ON interlock.runs USING brin (item) WITH (pages_per_range = 32, autosummarize = on);

-- seq = (transaction id << 16) + a number within the transaction, so that a reader who stops below the
-- oldest open transaction never skips a line.
CREATE TABLE interlock.events (
    seq     bigint PRIMARY KEY,
    at_us   bigint NOT NULL,
    kind    text NOT NULL,
    reason  text NOT NULL,
    project text COLLATE "C",
    item    bigint,
    run     bigint,
    lane    text COLLATE "C",
    agent   text,
    span_us bigint,
    data    text
);

-- Items and their events are near each other in time, so a block range index finds them at no cost a row.
CREATE INDEX events_item ON interlock.events USING brin (item) WITH (pages_per_range = 32, autosummarize = on);

CREATE TABLE interlock.dedupe_keys (
    project    text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    item       bigint NOT NULL,
    expires_us bigint NOT NULL,
    PRIMARY KEY (project, key)
);

CREATE INDEX dedupe_keys_expiry ON interlock.dedupe_keys (expires_us);

CREATE TABLE interlock.agents (
    key             text COLLATE "C" PRIMARY KEY,
    name            text NOT NULL,
    max_concurrency integer CHECK (max_concurrency > 0),
    types           text[] NOT NULL DEFAULT '{}',
    labels          text[] NOT NULL DEFAULT '{}',
    paused_why      text,
    seen_us         bigint
);

CREATE TABLE interlock.paused_projects (
    project text COLLATE "C" PRIMARY KEY,
    why     text NOT NULL
);

CREATE TABLE interlock.modes (
    scope text NOT NULL CHECK (scope IN ('project', 'lane')),
    value text NOT NULL,
    mode  text NOT NULL CHECK (mode IN ('off', 'observe', 'enforce')),
    PRIMARY KEY (scope, value)
);

-- Queue churn: vacuum by number of dead rows, not by share of a table that keeps its history.
ALTER TABLE interlock.items SET (
    fillfactor = 80,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 20000,
    autovacuum_vacuum_cost_delay = 0
);
