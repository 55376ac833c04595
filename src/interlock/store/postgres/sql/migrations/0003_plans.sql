-- Plans: graphs of tasks that may be edited while they run. A task is an item, and waits without a time.

CREATE TABLE interlock.plans (
    id              bigint PRIMARY KEY,
    project         text COLLATE "C" NOT NULL,
    name            text NOT NULL,
    editor          text COLLATE "C",
    edit_deadline_s double precision NOT NULL CHECK (edit_deadline_s > 0),
    status          text COLLATE "C" NOT NULL CHECK (status IN ('running', 'completed', 'failed', 'partially_failed', 'cancelled')),
    created_us      bigint NOT NULL,
    revision        integer NOT NULL CHECK (revision > 0),
    paused_why      text,
    ended_us        bigint,
    tasks           integer NOT NULL CHECK (tasks >= 0),
    edges           integer NOT NULL CHECK (edges >= 0),
    open_tasks      integer NOT NULL CHECK (open_tasks >= 0),
    completed       integer NOT NULL CHECK (completed >= 0),
    failed          integer NOT NULL CHECK (failed >= 0),
    cycle_us        bigint,
    deadline_us     bigint,
    edit_item       bigint,
    last_n          integer NOT NULL,
    answered_n      integer NOT NULL,
    edits_completed integer NOT NULL,
    edits_timed_out integer NOT NULL,
    edits_refused   integer NOT NULL,
    edits_rebased   integer NOT NULL,
    cycles          integer NOT NULL,
    lock_us         bigint NOT NULL,
    CHECK ((cycle_us IS NULL) = (edit_item IS NULL) AND (cycle_us IS NULL) = (deadline_us IS NULL)),
    CHECK (cycle_us IS NULL OR (editor IS NOT NULL AND ended_us IS NULL)),
    CHECK (ended_us IS NULL OR (status <> 'running' AND open_tasks = 0)),
    CHECK (answered_n <= last_n)
);

CREATE INDEX plans_late ON interlock.plans (deadline_us) WHERE deadline_us IS NOT NULL;
CREATE INDEX plans_stopping ON interlock.plans (id) WHERE status = 'cancelled' AND ended_us IS NULL;

-- Whether a plan gives out tasks: a row of its own, which claims lock to share and only those who open or close it lock
-- to change, so that ends of tasks and claims do not get in each other's way.
CREATE TABLE interlock.gates (
    plan bigint PRIMARY KEY REFERENCES interlock.plans (id),
    open boolean NOT NULL
);

CREATE INDEX gates_open ON interlock.gates (plan) WHERE open;

ALTER TABLE interlock.items ADD COLUMN plan bigint REFERENCES interlock.plans (id);
ALTER TABLE interlock.items DROP CONSTRAINT items_check3;
ALTER TABLE interlock.items ADD CHECK (status <> 'waiting' OR due_us IS NOT NULL OR plan IS NOT NULL);

DROP INDEX interlock.items_ready;
CREATE INDEX items_ready ON interlock.items (agent_key, sort_key, type)
    WHERE status = 'pending' AND due_us IS NULL AND plan IS NULL;
CREATE INDEX items_ready_task ON interlock.items (plan, agent_key, sort_key, type)
    WHERE status = 'pending' AND due_us IS NULL AND plan IS NOT NULL;

CREATE TABLE interlock.tasks (
    item             bigint PRIMARY KEY REFERENCES interlock.items (id),
    plan             bigint NOT NULL REFERENCES interlock.plans (id),
    key              text COLLATE "C" NOT NULL,
    rank             bigint NOT NULL,
    unmet            integer NOT NULL CHECK (unmet >= 0),
    broken           integer NOT NULL CHECK (broken >= 0),
    doomed           boolean NOT NULL,
    added_revision   integer NOT NULL,
    removed_revision integer
);

CREATE UNIQUE INDEX tasks_key ON interlock.tasks (plan, key) WHERE removed_revision IS NULL;
CREATE INDEX tasks_plan ON interlock.tasks (plan, item);
CREATE INDEX tasks_doomed ON interlock.tasks (plan) WHERE doomed;

CREATE TABLE interlock.edges (
    source    bigint NOT NULL REFERENCES interlock.tasks (item),
    target    bigint NOT NULL REFERENCES interlock.tasks (item),
    plan      bigint NOT NULL REFERENCES interlock.plans (id),
    "when"    text COLLATE "C" NOT NULL CHECK ("when" IN ('success', 'completion', 'failure')),
    on_cancel text COLLATE "C" NOT NULL CHECK (on_cancel IN ('block', 'satisfy')),
    state     text COLLATE "C" NOT NULL CHECK (state IN ('open', 'satisfied', 'broken')),
    PRIMARY KEY (source, target),
    CHECK (source <> target)
);

CREATE INDEX edges_target ON interlock.edges (target);
CREATE INDEX edges_plan ON interlock.edges (plan);

CREATE TABLE interlock.revisions (
    plan       bigint NOT NULL REFERENCES interlock.plans (id),
    revision   integer NOT NULL,
    base       integer NOT NULL,
    at_us      bigint NOT NULL,
    "by"       text,
    run        bigint,
    why        text NOT NULL,
    operations text,
    PRIMARY KEY (plan, revision)
);

CREATE TABLE interlock.completions (
    plan   bigint NOT NULL REFERENCES interlock.plans (id),
    n      integer NOT NULL,
    item   bigint NOT NULL REFERENCES interlock.tasks (item),
    key    text COLLATE "C" NOT NULL,
    status text COLLATE "C" NOT NULL CHECK (status IN ('completed', 'failed', 'cancelled')),
    at_us  bigint NOT NULL,
    PRIMARY KEY (plan, n)
);
