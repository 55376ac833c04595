-- The schema as all migrations make it, for reading; nothing runs this file. A test holds the two equal.

CREATE SCHEMA IF NOT EXISTS interlock;

-- No cache: a number given out later is greater, whichever connection asked.
CREATE SEQUENCE interlock.item_ids;
CREATE SEQUENCE interlock.run_numbers;
CREATE SEQUENCE interlock.tickets;
CREATE SEQUENCE interlock.event_numbers;

-- One row. Read with every reading of the clock, written when somebody has set it.
CREATE TABLE interlock.clock (
    one       boolean PRIMARY KEY DEFAULT true CHECK (one),
    offset_us bigint NOT NULL
);

-- The store's time in microseconds since 1970, now, and not at the start of the transaction, by an offset that the statement has read.
-- As one expression it becomes part of the statement. Whoever corrects the clock keeps other transactions from locking items, so the
-- offset is the same until the statement ends.
CREATE FUNCTION interlock.clock_us(offset_us bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + offset_us
$$;
-- The same, which reads the offset as it is now.
CREATE FUNCTION interlock.clock_us() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN interlock.clock_us((SELECT offset_us FROM interlock.clock));
END $$;

-- Version 0.1.0 reads the clock by this name in all that it writes, and puts this kind of error into words.
CREATE FUNCTION interlock.now_us() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
        MESSAGE = 'it was upgraded for newer versions than this one (0.1.0), so install a newer Interlock';
END $$;

-- From the server's strong source of randomness. A UUID has fixed bits, but not among its first four or last twelve digits.
CREATE FUNCTION interlock.random_bits() RETURNS bigint LANGUAGE sql VOLATILE
    AS $$ SELECT ('x' || overlay(gen_random_uuid()::text PLACING '' FROM 5 FOR 20))::bit(64)::bigint $$;

CREATE TABLE interlock.meta (
    name  text PRIMARY KEY,
    value text NOT NULL
);

-- This store and its ancestors. An ancestor that was `copied` may still be in use; one that is `gone` or `sealed` is not.
CREATE TABLE interlock.stores (
    id    text COLLATE "C" PRIMARY KEY,
    state text COLLATE "C" NOT NULL CHECK (state IN ('this', 'copied', 'gone', 'sealed'))
);
CREATE UNIQUE INDEX stores_this ON interlock.stores (state) WHERE state = 'this';

-- A name for a store: 48 random bits.
CREATE FUNCTION interlock.new_store() RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT left(replace(gen_random_uuid()::text, '-', ''), 12)
$$;

-- The row that arrival, finish, expiry and cancel lock first. Never deleted.
CREATE TABLE interlock.lanes (
    lane       text COLLATE "C" PRIMARY KEY,
    streak     integer NOT NULL DEFAULT 0,
    streak_run bigint,
    last_agent text,
    -- The gate of a lane, if it has one: the lane of its series, whether it is open, the types that it lets through when shut, and
    -- since when it is so. It is on the row that every change of the lane locks: whoever waited for that row reads the gate as it is then.
    gate_series text COLLATE "C",
    gate_open   boolean,
    gate_exempt text[],
    gate_us     bigint,
    -- Whether a block keeps everything on it from being started.
    blocked     boolean NOT NULL DEFAULT false,
    CHECK ((gate_series IS NULL) = (gate_open IS NULL) AND (gate_series IS NULL) = (gate_exempt IS NULL)
        AND (gate_series IS NULL) = (gate_us IS NULL))
);
CREATE INDEX lanes_gated ON interlock.lanes (lane) WHERE gate_us IS NOT NULL;
CREATE INDEX lanes_blocked ON interlock.lanes (lane) WHERE blocked;
CREATE INDEX lanes_series ON interlock.lanes (gate_series, lane) WHERE gate_series IS NOT NULL;

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
    edits_failed    integer NOT NULL DEFAULT 0,
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

CREATE TABLE interlock.items (
    id               bigint PRIMARY KEY,
    project          text COLLATE "C" NOT NULL,
    type             text COLLATE "C" NOT NULL,
    title            text NOT NULL,
    agent_key        text COLLATE "C" NOT NULL,
    policy           text COLLATE "C" NOT NULL,
    priority         integer NOT NULL,
    position         integer NOT NULL,
    ticket           bigint NOT NULL,
    sort_key         bigint NOT NULL,
    lane             text COLLATE "C" REFERENCES interlock.lanes (lane),
    observed_lane    text COLLATE "C" REFERENCES interlock.lanes (lane),
    labels           text[],
    lease_s          double precision,
    timeout_s        double precision,
    max_attempts     integer NOT NULL,
    retry_lane       text NOT NULL,
    created_us       bigint NOT NULL,
    status           text COLLATE "C" NOT NULL,
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
    cancel_into      text,
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
    claim_by_us      bigint,
    claim_within_s   double precision,
    plan             bigint REFERENCES interlock.plans (id),
    run_bits         bigint,
    streak           integer NOT NULL DEFAULT 0,
    last_agent       text,
    -- Pending on a lane that is shut for its type: no claim may start it.
    gated            boolean NOT NULL DEFAULT false,
    -- A block of its own keeps it from being started.
    blocked          boolean NOT NULL DEFAULT false
);

-- What holds for each item. As constraints PostgreSQL reads these conditions from their text with each statement that writes
-- an item, which took half of the time that writing one item takes; a function it reads once in a session.
CREATE FUNCTION interlock.is_consistent(i interlock.items) RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN i.status IN ('waiting', 'deferred', 'pending', 'in_progress', 'completed', 'failed', 'cancelled', 'superseded', 'coalesced')
        AND i.policy IN ('queue', 'coalesce', 'supersede', 'latest', 'reject')
        AND i.retry_lane IN ('yield', 'keep')
        AND i.cancel_into IN ('cancelled', 'superseded', 'pending')
        AND i.max_attempts > 0
        AND (i.status = 'in_progress') = (i.run IS NOT NULL)
        AND (i.run IS NULL) = (i.run_bits IS NULL)
        AND (i.status <> 'in_progress' OR (i.run_agent IS NOT NULL AND (i.lease_until_us IS NULL OR i.due_us IS NOT NULL)))
        AND (i.status <> 'waiting' OR i.due_us IS NOT NULL OR i.plan IS NOT NULL OR i.reason = 'loop')
        AND (i.status <> 'deferred' OR (i.lane IS NOT NULL AND i.due_us IS NULL))
        AND (i.status IN ('completed', 'failed', 'cancelled', 'superseded', 'coalesced')) = (i.ended_us IS NOT NULL)
        AND (i.lane IS NULL OR i.observed_lane IS NULL)
        AND (NOT i.gated OR (i.status = 'pending' AND i.lane IS NOT NULL))
        AND (i.claim_by_us IS NULL OR (i.status = 'pending' AND i.due_us IS NULL))
        AND (i.claim_within_s IS NULL OR i.status <> 'pending' OR (i.claim_by_us IS NULL) = (i.due_us IS NOT NULL));
END $$;
ALTER TABLE interlock.items ADD CONSTRAINT items_consistent CHECK (interlock.is_consistent(items));

-- Promise 1 stands in the schema too: one active item a lane.
CREATE UNIQUE INDEX items_lane_owner ON interlock.items (lane)
    WHERE status IN ('pending', 'in_progress') AND lane IS NOT NULL;
-- Agent, project, type, labels and plan name a queue: a wish fits all of its items, or none.
CREATE INDEX items_ready ON interlock.items
    (agent_key, project, type, (coalesce(labels, '{}') COLLATE "C"), (coalesce(plan, 0)), sort_key)
    WHERE status = 'pending' AND due_us IS NULL AND NOT gated AND NOT blocked;
-- The first item of an agent or of anyone, whatever its queue. The last condition is always true: only the statement that says it
-- can use this index, so the planner never takes it in place of `items_ready`.
CREATE INDEX items_first ON interlock.items (agent_key, sort_key)
    WHERE status = 'pending' AND due_us IS NULL AND NOT gated AND NOT blocked AND id > 0;
CREATE INDEX items_due ON interlock.items (due_us, id) WHERE due_us IS NOT NULL;
CREATE INDEX items_line ON interlock.items (lane, front DESC, position, ticket, id) WHERE status = 'deferred';
CREATE INDEX items_replaceable ON interlock.items (lane)
    WHERE status IN ('deferred', 'waiting') AND policy IN ('supersede', 'latest')
        AND (status = 'deferred' OR first_claimed_us IS NOT NULL OR reason = 'loop');
-- Items behind a gate, and items that wait for a person after too many wake-ups: their lanes.
CREATE INDEX items_held ON interlock.items (gated, lane) WHERE gated OR (status = 'waiting' AND reason = 'loop');
CREATE INDEX items_observed ON interlock.items (observed_lane)
    WHERE status IN ('pending', 'in_progress') AND observed_lane IS NOT NULL;
CREATE INDEX items_unclaimed ON interlock.items (claim_by_us) WHERE status = 'pending' AND claim_by_us IS NOT NULL;
-- External runs: under no lease, so nothing but a report, a timeout or a grace ends them. Behind them items that wait for a person's
-- answer, which have no run.
CREATE INDEX items_outside ON interlock.items (run, id)
    WHERE (status = 'in_progress' AND lease_until_us IS NULL) OR (status IN ('waiting', 'pending') AND reason = 'asked');
CREATE INDEX items_running ON interlock.items (run_agent) WHERE status = 'in_progress';
-- Who could overtake an owner that cannot start, and whose agent another arrival may join: deferred, or waiting for another attempt.
CREATE INDEX items_kin ON interlock.items (status, agent_key, lane, position, ticket, id)
    WHERE status = 'deferred' OR (status = 'waiting' AND first_claimed_us IS NOT NULL AND due_us IS NOT NULL);
-- Lists by status, newest first. The primary key cannot give this order, so that no plan walks the whole history by it.
CREATE INDEX items_status ON interlock.items (status, (-id));
-- Back-offs that keep their lane: pending, and not ready.
CREATE INDEX items_parked ON interlock.items (priority) WHERE status = 'pending' AND due_us IS NOT NULL;
-- What refers to items that may go.
CREATE INDEX items_absorbed ON interlock.items (absorbed_by) WHERE absorbed_by IS NOT NULL;
CREATE INDEX items_of_plan ON interlock.items (plan) WHERE plan IS NOT NULL;

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
    sender text NOT NULL DEFAULT 'person' CHECK (sender IN ('person', 'agent', 'bot', 'system', 'outsider')),
    agent  text NOT NULL DEFAULT '',
    reason text NOT NULL DEFAULT '',
    url    text NOT NULL DEFAULT '',
    said   text NOT NULL DEFAULT '',
    CHECK ((sender = 'agent') = (agent <> '')),
    PRIMARY KEY (item, n)
);

CREATE INDEX messages_origin ON interlock.messages (origin) WHERE origin <> item;

-- Ends of runs. A function, because PostgreSQL reads the text of a constraint in each statement that writes a row.
CREATE FUNCTION interlock.ends_a_run(status text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN status IN ('succeeded', 'failed', 'cancelled', 'timed_out', 'lost', 'released');
END $$;

-- Ended runs, written once. A live run stands on its item's row.
CREATE TABLE interlock.runs (
    run        bigint PRIMARY KEY,
    item       bigint NOT NULL,
    attempt    integer NOT NULL,
    agent      text NOT NULL,
    worker     text,
    started_us bigint NOT NULL,
    ended_us   bigint NOT NULL,
    status     text COLLATE "C" NOT NULL CHECK (interlock.ends_a_run(status)),
    reason     text NOT NULL,
    result     text,
    error      text,
    bits       bigint
);

CREATE INDEX runs_item ON interlock.runs (item);

-- seq = number << 16 + place, with a number that a transaction draws after its last lock (`next_seq`).
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

CREATE INDEX events_item ON interlock.events (item, seq) WHERE item IS NOT NULL;

CREATE TABLE interlock.dedupe_keys (
    project    text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    item       bigint NOT NULL,
    expires_us bigint NOT NULL,
    PRIMARY KEY (project, key)
);

CREATE INDEX dedupe_keys_expiry ON interlock.dedupe_keys (expires_us);
CREATE INDEX dedupe_keys_item ON interlock.dedupe_keys (item);

CREATE TABLE interlock.pools (
    name            text COLLATE "C" PRIMARY KEY,
    max_concurrency integer NOT NULL CHECK (max_concurrency > 0)
);

CREATE TABLE interlock.agents (
    key             text COLLATE "C" PRIMARY KEY,
    name            text NOT NULL,
    max_concurrency integer CHECK (max_concurrency > 0),
    types           text[] NOT NULL DEFAULT '{}',
    labels          text[] NOT NULL DEFAULT '{}',
    paused_why      text,
    seen_us         bigint,
    wall_us         bigint,
    wall_why        text,
    pool            text COLLATE "C" REFERENCES interlock.pools (name),
    overtake_after_s double precision CHECK (overtake_after_s >= 0)
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

-- Workers that were seen lately. A worker says every few seconds that it is there, and says goodbye when it ends.
CREATE TABLE interlock.workers (
    name       text COLLATE "C" PRIMARY KEY,
    host       text NOT NULL,
    pid        bigint NOT NULL,
    folder     text NOT NULL,
    agent      text COLLATE "C" NOT NULL,
    slots      integer NOT NULL,
    runs       integer NOT NULL,
    started_us bigint NOT NULL,
    seen_us    bigint NOT NULL
);
CREATE INDEX workers_seen ON interlock.workers (seen_us);
CREATE INDEX workers_agent ON interlock.workers (agent, seen_us);

-- Repositories by the number that a rename leaves alone. Their lanes keep the name of the first sight.
CREATE TABLE interlock.github_repositories (
    id        bigint PRIMARY KEY,
    name      text COLLATE "C" NOT NULL,
    lane_name text COLLATE "C" NOT NULL UNIQUE,
    swept_to  text COLLATE "C" NOT NULL DEFAULT ''
);
CREATE INDEX github_repositories_name ON interlock.github_repositories (name);

-- Deliveries by GitHub's id. The body goes when it was decided on; the id stays, for it may come again.
-- With a body and no time, too many tries have failed.
CREATE TABLE interlock.github_deliveries (
    id          text COLLATE "C" PRIMARY KEY,
    event       text COLLATE "C" NOT NULL,
    repository  bigint,
    number      bigint,
    received_us bigint NOT NULL,
    due_us      bigint,
    tries       integer NOT NULL DEFAULT 0,
    outcome     text,
    body        text,
    CHECK (due_us IS NULL OR body IS NOT NULL)
);
CREATE INDEX github_deliveries_due ON interlock.github_deliveries (due_us) WHERE due_us IS NOT NULL;
CREATE INDEX github_deliveries_kept ON interlock.github_deliveries (received_us) WHERE body IS NOT NULL;
CREATE INDEX github_deliveries_of_number ON interlock.github_deliveries (repository, number, received_us) WHERE body IS NOT NULL;
CREATE INDEX github_deliveries_decided ON interlock.github_deliveries (received_us) WHERE body IS NULL;

-- Issues and pull requests as they were read last, and the items that they wanted then.
CREATE TABLE interlock.github_numbers (
    repository bigint NOT NULL REFERENCES interlock.github_repositories (id),
    number     bigint NOT NULL,
    revision   bigint NOT NULL,
    facts      text NOT NULL,
    wanted     text NOT NULL,
    read_us    bigint NOT NULL,
    last_place bigint NOT NULL,
    PRIMARY KEY (repository, number)
);

-- What follows from a change or a remark, in order: written with the change, carried out after it.
-- With neither time, too many tries have failed.
CREATE TABLE interlock.github_consequences (
    repository bigint NOT NULL,
    number     bigint NOT NULL,
    place      bigint NOT NULL,
    name       text COLLATE "C" NOT NULL,
    data       text NOT NULL,
    due_us     bigint,
    done_us    bigint,
    tries      integer NOT NULL DEFAULT 0,
    item       bigint,
    outcome    text,
    PRIMARY KEY (repository, number, place),
    UNIQUE (repository, number, name),
    FOREIGN KEY (repository, number) REFERENCES interlock.github_numbers (repository, number),
    CHECK (due_us IS NULL OR done_us IS NULL)
);
CREATE INDEX github_consequences_due ON interlock.github_consequences (due_us) WHERE due_us IS NOT NULL;
CREATE INDEX github_consequences_owed ON interlock.github_consequences (repository, number, place) WHERE done_us IS NULL;
CREATE INDEX github_consequences_done ON interlock.github_consequences (done_us) WHERE done_us IS NOT NULL;

-- What the rules of a repository say that it is shown; without a row, nothing.
CREATE TABLE interlock.github_choices (
    repository  bigint PRIMARY KEY REFERENCES interlock.github_repositories (id),
    comments    smallint NOT NULL CHECK (comments IN (0, 1)),
    lane_status smallint NOT NULL CHECK (lane_status IN (0, 1))
);

-- The issues that open pull requests close, as they were read last.
CREATE TABLE interlock.github_closes (
    repository bigint NOT NULL,
    issue      bigint NOT NULL,
    pull       bigint NOT NULL,
    PRIMARY KEY (repository, issue, pull),
    FOREIGN KEY (repository, pull) REFERENCES interlock.github_numbers (repository, number)
);
CREATE INDEX github_closes_of_pull ON interlock.github_closes (repository, pull);

-- The reaction that says that a run is at work, from before it is there until it is gone.
CREATE TABLE interlock.github_signs (
    run        bigint PRIMARY KEY,
    item       bigint NOT NULL,
    repository bigint NOT NULL REFERENCES interlock.github_repositories (id),
    number     bigint NOT NULL,
    kind       text COLLATE "C" NOT NULL,
    subject    bigint NOT NULL,
    reaction   bigint
);
CREATE INDEX github_signs_subject ON interlock.github_signs (repository, kind, subject);

-- Accounts at GitHub that runs on lanes write with, as their workers report them. Logins are in lower case.
CREATE TABLE interlock.github_accounts (
    run      bigint PRIMARY KEY,
    item     bigint NOT NULL,
    lane     text COLLATE "C" NOT NULL,
    account  text COLLATE "C" NOT NULL,
    since_us bigint NOT NULL
);
CREATE INDEX github_accounts_lane ON interlock.github_accounts (lane, account, run);
CREATE INDEX github_accounts_item ON interlock.github_accounts (item);

-- One queue for each number (0: the repository itself). Whoever sends has it leased: it is not due until then.
CREATE TABLE interlock.github_outboxes (
    repository bigint NOT NULL REFERENCES interlock.github_repositories (id),
    number     bigint NOT NULL,
    last_place bigint NOT NULL,
    due_us     bigint,
    token      text,
    PRIMARY KEY (repository, number)
);
CREATE INDEX github_outboxes_due ON interlock.github_outboxes (due_us) WHERE due_us IS NOT NULL;

-- What is to be done at GitHub. With a time in `dead_us` it waits for a person.
CREATE TABLE interlock.github_effects (
    repository bigint NOT NULL,
    number     bigint NOT NULL,
    place      bigint NOT NULL,
    name       text COLLATE "C" NOT NULL,
    kind       text COLLATE "C" NOT NULL,
    thing      text COLLATE "C" NOT NULL,
    data       text NOT NULL,
    run        bigint,
    owed_us    bigint NOT NULL,
    after_us   bigint,
    tries      integer NOT NULL DEFAULT 0,
    sent_us    bigint,
    made       bigint,
    done_us    bigint,
    dead_us    bigint,
    outcome    text,
    PRIMARY KEY (repository, number, place),
    UNIQUE (repository, number, name),
    FOREIGN KEY (repository, number) REFERENCES interlock.github_outboxes (repository, number),
    CHECK (done_us IS NULL OR dead_us IS NULL)
);
CREATE INDEX github_effects_owed ON interlock.github_effects (repository, number, place) WHERE done_us IS NULL AND dead_us IS NULL;
CREATE INDEX github_effects_dead ON interlock.github_effects (dead_us) WHERE dead_us IS NOT NULL;
CREATE INDEX github_effects_done ON interlock.github_effects (done_us) WHERE done_us IS NOT NULL;
CREATE INDEX github_effects_sent ON interlock.github_effects (sent_us) WHERE sent_us IS NOT NULL;
CREATE INDEX github_effects_thing ON interlock.github_effects (repository, number, thing, place) WHERE thing <> '';

-- What was seen and counted of a series, by its lane. It decides nothing about who has the lane.
CREATE TABLE interlock.series_notes (
    lane     text COLLATE "C" PRIMARY KEY,
    revision bigint NOT NULL CHECK (revision > 0),
    data     text NOT NULL
);

-- Answers of GitHub with their ETags: an unchanged one costs nothing of the allowance.
CREATE TABLE interlock.github_answers (
    key     text COLLATE "C" PRIMARY KEY,
    etag    text NOT NULL,
    link    text,
    body    bytea NOT NULL,
    kept_us bigint NOT NULL
);
CREATE INDEX github_answers_kept ON interlock.github_answers (kept_us);

-- A pull request, whose head moves, or a commit in none (number 0). Checks are followed where a run is linked to it.
CREATE TABLE interlock.github_heads (
    repository bigint NOT NULL REFERENCES interlock.github_repositories (id),
    number     bigint NOT NULL,
    commit_id  text COLLATE "C" NOT NULL,
    revision   bigint NOT NULL,
    head       text COLLATE "C" NOT NULL,
    branch     text NOT NULL,
    url        text NOT NULL,
    outcome    text COLLATE "C",
    ci_outcome text COLLATE "C",
    ci_why     text NOT NULL,
    followed   boolean NOT NULL,
    head_us    bigint NOT NULL,
    ci_us      bigint NOT NULL,
    looked_us  bigint NOT NULL,
    PRIMARY KEY (repository, number, commit_id),
    CHECK ((number = 0) = (commit_id <> '')),
    CHECK ((number = 0) = (outcome IS NULL)),
    CHECK (outcome IN ('open', 'merged', 'closed')),
    CHECK (ci_outcome IN ('pending', 'success', 'failure', 'cancelled'))
);
CREATE INDEX github_heads_open ON interlock.github_heads (looked_us) WHERE followed AND (outcome = 'open' OR (number = 0 AND ci_outcome = 'pending'));
CREATE INDEX github_heads_commits ON interlock.github_heads (head_us) WHERE number = 0;

-- Runs that a pull request or a commit comes from, and how that was found.
CREATE TABLE interlock.github_links (
    run        bigint NOT NULL,
    repository bigint NOT NULL,
    number     bigint NOT NULL,
    commit_id  text COLLATE "C" NOT NULL,
    item       bigint NOT NULL,
    how        text COLLATE "C" NOT NULL,
    linked_us  bigint NOT NULL,
    PRIMARY KEY (run, repository, number, commit_id),
    FOREIGN KEY (repository, number, commit_id) REFERENCES interlock.github_heads (repository, number, commit_id),
    CHECK (how IN ('trailer', 'branch', 'closes'))
);
CREATE INDEX github_links_item ON interlock.github_links (item);
CREATE INDEX github_links_head ON interlock.github_links (repository, number, commit_id);

-- Workflow runs of followed heads in their newest attempts, with where their logs and artifacts are, and until when.
CREATE TABLE interlock.github_workflow_runs (
    repository    bigint NOT NULL REFERENCES interlock.github_repositories (id),
    id            bigint NOT NULL,
    head          text COLLATE "C" NOT NULL,
    attempt       bigint NOT NULL,
    name          text NOT NULL,
    status        text COLLATE "C" NOT NULL,
    conclusion    text COLLATE "C",
    url           text NOT NULL,
    logs_url      text NOT NULL,
    logs_until_us bigint NOT NULL,
    artifacts     text NOT NULL,
    begun_us      bigint NOT NULL,
    PRIMARY KEY (repository, id)
);
CREATE INDEX github_workflow_runs_head ON interlock.github_workflow_runs (repository, head);
CREATE INDEX github_workflow_runs_begun ON interlock.github_workflow_runs (begun_us);

-- Links with what they lead to. `newest` marks the one that speaks for its item: of the pull request that was opened last.
CREATE VIEW interlock.github_followed AS
SELECT l.run, l.item, l.repository, l.number, l.commit_id, l.how, l.linked_us, r.name, h.head, h.branch, h.url,
    h.outcome, h.ci_outcome, h.ci_why, h.head_us, h.ci_us,
    NOT EXISTS (SELECT 1 FROM interlock.github_links o WHERE o.item = l.item
        AND (o.number, o.run, o.linked_us, o.commit_id) > (l.number, l.run, l.linked_us, l.commit_id)) AS newest
FROM interlock.github_links l
JOIN interlock.github_heads h ON h.repository = l.repository AND h.number = l.number AND h.commit_id = l.commit_id
JOIN interlock.github_repositories r ON r.id = l.repository;

-- For each notice, by its setting: the last event that was dealt with, who has it leased until when, and how often the next one was
-- tried. `until_us` without a token is the wait after a failed try.
CREATE TABLE interlock.marks (
    name     text COLLATE "C" PRIMARY KEY,
    seq      bigint NOT NULL,
    token    bigint,
    until_us bigint NOT NULL DEFAULT 0,
    tries    integer NOT NULL DEFAULT 0 CHECK (tries >= 0)
);

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

CREATE INDEX completions_item ON interlock.completions (item);

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

-- In a queue: pending, not scheduled, not gated and not blocked. The project or the plan may still hold back the whole queue.
CREATE VIEW interlock.queued AS
    SELECT id, sort_key, agent_key, project, type, coalesce(labels, '{}') COLLATE "C" AS labels, coalesce(plan, 0) AS plan
    FROM interlock.items WHERE status = 'pending' AND due_us IS NULL AND NOT gated AND NOT blocked;

-- Offered: in a queue, and of a project that nobody paused. A task may still be held back by its plan.
CREATE VIEW interlock.offered AS
    SELECT id, sort_key, agent_key, type, labels, plan FROM interlock.items
    WHERE status = 'pending' AND due_us IS NULL AND NOT gated AND NOT blocked
        AND project NOT IN (SELECT project FROM interlock.paused_projects);

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

-- Lanes whose owner contradicts their gate or their block: its flag is wrong, or its run may not go on and was not asked to stop.
CREATE VIEW interlock.misgated AS
    SELECT o.lane, o.id FROM interlock.items o JOIN interlock.lanes l ON l.lane = o.lane
    WHERE o.status IN ('pending', 'in_progress') AND o.lane IS NOT NULL
        AND CASE WHEN o.status = 'pending'
            THEN o.gated <> (l.blocked OR NOT (coalesce(l.gate_open, true) OR o.type = ANY(l.gate_exempt)))
            ELSE o.cancel_into IS NULL AND NOT (coalesce(l.gate_open, true) OR o.type = ANY(l.gate_exempt)) END;

-- How many runs the agents of each pool have together. One edit of a plan of each agent does not count.
CREATE VIEW interlock.pool_runs AS
    SELECT p.name, p.max_concurrency, (
        SELECT coalesce(sum((SELECT count(*) - least(count(*) FILTER (WHERE type = 'plan.edit'), 1) FROM interlock.items
            WHERE status = 'in_progress' AND run_agent = a.key)), 0)::integer
        FROM interlock.agents a WHERE a.pool = p.name) AS running
    FROM interlock.pools p;

-- Agents that may start one more run: known, not paused, below their limit and that of their pool. One edit of a plan does not count.
CREATE VIEW interlock.free_agents AS
    SELECT key FROM interlock.agents a
    WHERE paused_why IS NULL AND (max_concurrency IS NULL OR max_concurrency > (
        SELECT count(*) - least(count(*) FILTER (WHERE type = 'plan.edit'), 1) FROM interlock.items
        WHERE status = 'in_progress' AND run_agent = a.key))
        AND (pool IS NULL OR EXISTS (SELECT FROM interlock.pool_runs r WHERE r.name = a.pool AND r.running < r.max_concurrency));

-- Owners of lanes that have not started: until when one cannot start (for ever, as far as can be known, or until its agent's wall is
-- over; null if it can), whether its agent is unknown or cannot do it, and from when its agent counts as gone, if it shows no sign of life
-- before (null: not at all). `firm`: it is never overtaken, as a position orders its lane or it keeps the lane for its retries.
CREATE VIEW interlock.unstarted_owners AS
    SELECT o.id, o.lane, o.agent_key, o.created_us, o.position < 2147483647 OR o.retry_lane = 'keep' AS firm, able.not AS unable,
        CASE WHEN able.not OR (SELECT true FROM interlock.ready r WHERE r.id = o.id LIMIT 1) IS NULL
                OR (o.agent_key <> '' AND (SELECT true FROM interlock.free_agents f WHERE f.key = o.agent_key LIMIT 1) IS NULL)
            THEN 9223372036854775807 ELSE a.wall_us END AS until_us,
        CASE WHEN a.key IS NULL OR a.overtake_after_s = 0
                OR (SELECT true FROM interlock.items r WHERE r.status = 'in_progress' AND r.run_agent = a.key LIMIT 1) THEN NULL
            ELSE greatest(coalesce(a.seen_us, o.created_us) + (coalesce(a.overtake_after_s, 60) * 1000000)::bigint,
                (SELECT w.seen_us FROM interlock.workers w WHERE w.agent = a.key ORDER BY w.agent DESC, w.seen_us DESC LIMIT 1) + 30000000) END AS gone_us
    FROM interlock.items o LEFT JOIN interlock.agents a ON a.key = o.agent_key
    CROSS JOIN LATERAL (SELECT o.agent_key <> '' AND (a.key IS NULL OR (a.types <> '{}' AND o.type <> ALL(a.types))
        OR (NOT coalesce(o.labels, '{}') <@ a.labels AND NOT (o.type = 'hold' AND 'hold' = ANY(o.labels)))) AS not) AS able
    WHERE o.status IN ('pending', 'in_progress') AND o.lane IS NOT NULL AND o.status = 'pending' AND o.due_us IS NULL;

-- When the next effect may be sent: GitHub allows one account about 80 creations a minute and 500 an hour.
CREATE VIEW interlock.github_pace AS
SELECT greatest(
    coalesce((SELECT sent_us FROM interlock.github_effects WHERE sent_us IS NOT NULL ORDER BY sent_us DESC LIMIT 1 OFFSET 79) + 60000000, 0),
    coalesce((SELECT sent_us FROM interlock.github_effects WHERE sent_us IS NOT NULL ORDER BY sent_us DESC LIMIT 1 OFFSET 499) + 3600000000, 0)
) AS free_us;

-- How many items there are by status and priority: the folded counts, and what changed since, which nobody waits for.
CREATE TABLE interlock.tallies (
    status   text COLLATE "C" NOT NULL,
    priority integer NOT NULL,
    n        bigint NOT NULL,
    PRIMARY KEY (status, priority)
);
-- So many items of this priority went from status `was` to `status`. Null: from or to none, as items are added, deleted, or change
-- their priority.
CREATE TABLE interlock.tally_changes (
    status   text COLLATE "C",
    priority integer NOT NULL,
    n        integer NOT NULL,
    was      text COLLATE "C"
);
ALTER TABLE interlock.tally_changes SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0
);

-- What is to be added up to the number of items by status and priority.
CREATE VIEW interlock.tallied (status, priority, n) AS
    SELECT status, priority, n FROM interlock.tallies
    UNION ALL SELECT status, priority, n FROM interlock.tally_changes WHERE status IS NOT NULL
    UNION ALL SELECT was, priority, -n FROM interlock.tally_changes WHERE was IS NOT NULL;

-- Queue churn: vacuum by number of dead rows, not by share of a table that keeps its history.
ALTER TABLE interlock.items SET (
    fillfactor = 80,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
    autovacuum_analyze_scale_factor = 0, autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_threshold = 2000
);

-- What was applied, with a checksum of its text. Made by the program, with the first migration.
CREATE TABLE interlock.migrations (
    version    integer PRIMARY KEY,
    name       text NOT NULL,
    checksum   text NOT NULL,
    applied_us bigint NOT NULL,
    serves     integer
);

-- Where this database is: its server's identifier, its own number there, its table of items, and the timeline, which a promotion
-- changes. The control file's timeline lags behind a promotion, so it is read from the log's.
CREATE FUNCTION interlock.identity() RETURNS text LANGUAGE sql STABLE AS $$
    SELECT concat_ws('/', system_identifier, (SELECT oid FROM pg_database WHERE datname = current_database()),
        'interlock.items'::regclass::oid, left(pg_walfile_name(pg_current_wal_lsn()), 8))
    FROM pg_control_system()
$$;

-- True, or an error: a process that knows only this schema version may write, and the numbers are those of this database.
-- A session compares the database's place once and remembers it. A server, a database and a timeline do not change under a session
-- that may write: only the table of items can be another one, if a backup was restored into the same database.
CREATE FUNCTION interlock.expect(known integer) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
DECLARE
    newest record;
BEGIN
    IF pg_is_in_recovery() THEN
        RAISE read_only_sql_transaction;
    END IF;
    SELECT version, serves, (SELECT value FROM interlock.meta WHERE name = 'identity') AS place INTO newest
        FROM interlock.migrations ORDER BY version DESC LIMIT 1;
    IF newest.serves > known THEN
        RAISE EXCEPTION USING ERRCODE = 'IL001', MESSAGE = format(
            'The database has schema version %s, this Interlock knows %s.', newest.version, known);
    END IF;
    IF (newest.place = current_setting('interlock.place', true)
        AND split_part(newest.place, '/', 3) = 'interlock.items'::regclass::oid::text) IS NOT TRUE
    THEN
        IF newest.place IS DISTINCT FROM interlock.identity() THEN
            RAISE EXCEPTION USING ERRCODE = 'IL002', MESSAGE = 'The numbers are not moved forward to this server yet.';
        END IF;
        PERFORM set_config('interlock.place', newest.place, false);
    END IF;
    RETURN true;
END $$;

-- The database is taken to be where it is now. If it was elsewhere, commits may be lost, and with them numbers that somebody still
-- has: runs go on after the number given, items and events far above all that can have been given out, and the history says so. Each
-- call after the first changes nothing.
-- From then on it is another store. The one that it was is gone if this server has no other database that could be it; a copy on
-- another server, or of a database that is still there, may have left it in use.
-- With the rights of the schema's owner: a worker's role need not be able to set sequences.
CREATE FUNCTION interlock.adopt(last_run bigint) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    here text := interlock.identity();
    there text;
    clock_us bigint := interlock.clock_us();
BEGIN
    INSERT INTO interlock.meta (name, value) VALUES ('identity', here) ON CONFLICT DO NOTHING;
    IF FOUND THEN  -- nothing was given out yet; the database it was made from has the same name
        UPDATE interlock.stores SET id = interlock.new_store() WHERE state = 'this';
    END IF;
    SELECT value INTO there FROM interlock.meta WHERE name = 'identity' FOR UPDATE;
    IF there = here THEN
        RETURN;
    END IF;
    PERFORM setval('interlock.run_numbers', (SELECT greatest(last_value, last_run) FROM interlock.run_numbers));
    PERFORM setval('interlock.item_ids', (SELECT last_value + 1000000 FROM interlock.item_ids));
    PERFORM setval('interlock.event_numbers', (SELECT last_value + 16000000 FROM interlock.event_numbers));
    UPDATE interlock.meta SET value = here WHERE name = 'identity';
    UPDATE interlock.stores SET state = CASE
            WHEN split_part(there, '/', 1) <> split_part(here, '/', 1) THEN 'copied'
            WHEN split_part(there, '/', 2) = split_part(here, '/', 2) THEN 'gone'
            WHEN EXISTS (SELECT FROM pg_database WHERE oid::text = split_part(there, '/', 2)) THEN 'copied'
            ELSE 'gone' END
        WHERE state = 'this';
    INSERT INTO interlock.stores (id, state) VALUES (interlock.new_store(), 'this');
    INSERT INTO interlock.meta (name, value) VALUES ('changed_us', clock_us) ON CONFLICT (name) DO UPDATE SET value = excluded.value;
    INSERT INTO interlock.events (seq, at_us, kind, reason, data) VALUES (interlock.next_seq(), clock_us, 'store.changed', '',
        json_build_object('was', there, 'now', here, 'last_run', last_run)::text);
END $$;

-- Runs go on after the number given, unless they have gone further already; the history says why. No number reaches 2^62.
-- With the rights of the schema's owner: a worker's role need not be able to set sequences.
CREATE FUNCTION interlock.leap(past bigint, last_run bigint, run bigint, lane text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    clock_us bigint := interlock.clock_us();
BEGIN
    PERFORM FROM interlock.meta WHERE name = 'identity' FOR UPDATE;  -- one after the other
    IF last_run >= 1::bigint << 62 OR last_run <= (SELECT last_value FROM interlock.run_numbers) THEN
        RETURN;
    END IF;
    PERFORM setval('interlock.run_numbers', last_run);
    INSERT INTO interlock.meta (name, value) VALUES ('leapt_us', clock_us) ON CONFLICT (name) DO UPDATE SET value = excluded.value;
    INSERT INTO interlock.events (seq, at_us, kind, reason, run, lane, data) VALUES (interlock.next_seq(), clock_us, 'store.leapt', '',
        leap.run, leap.lane, json_build_object('past', past, 'last_run', last_run)::text);
END $$;

-- The first number for the lines of a transaction that has locked all it will lock: seq = number << 16 + place. Before it
-- draws, it announces a lower bound of what it will draw, by a lock of its transaction that keeps nobody out: the number
-- drawn last by anyone, below the mark "il".
CREATE FUNCTION interlock.next_seq() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT CASE WHEN pg_advisory_xact_lock_shared(0x696C::bigint << 48 | coalesce(pg_sequence_last_value('interlock.event_numbers'), 1))::text = ''
        THEN nextval('interlock.event_numbers') << 16 END
$$;

-- Below this number no line can appear any more to statements that begin later. The order matters: first what was drawn
-- last, then who has announced. A writer that is not seen there has ended, and its lines are visible; or it announces later,
-- and draws later still. Null on a standby, which does not see the announcements.
CREATE FUNCTION interlock.horizon() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    drawn bigint;
    announced bigint;
BEGIN
    drawn := (SELECT last_value FROM interlock.event_numbers);
    announced := (SELECT min(key & 0xFFFFFFFFFFFF) FROM (
        SELECT classid::bigint << 32 | objid::bigint AS key FROM pg_locks
        WHERE locktype = 'advisory' AND objsubid = 1 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    ) AS held WHERE key >> 48 = 0x696C);
    RETURN CASE WHEN NOT pg_is_in_recovery() THEN least(drawn, announced) + 1 << 16 END;
END $$;

SELECT setval('interlock.event_numbers', 1);

-- Tokens. Only a hash of each is here.
CREATE TABLE interlock.tokens (
    id         text COLLATE "C" PRIMARY KEY,
    name       text NOT NULL,
    scope      text NOT NULL,
    hash       text NOT NULL,
    created_us bigint NOT NULL,
    expires_us bigint,
    used_us    bigint,
    revoked_us bigint,
    CHECK (length(hash) = 64)
);
CREATE INDEX tokens_created ON interlock.tokens (created_us);
CREATE INDEX tokens_open ON interlock.tokens (expires_us) WHERE revoked_us IS NULL;

-- Sessions and links. Each has the scope of its token, and ends with it. Only a hash of each is here.
CREATE TABLE interlock.sessions (
    id         text COLLATE "C" PRIMARY KEY,
    token      text COLLATE "C" NOT NULL REFERENCES interlock.tokens (id),
    kind       text COLLATE "C" NOT NULL,
    hash       text NOT NULL,
    created_us bigint NOT NULL,
    expires_us bigint NOT NULL,
    CHECK (kind IN ('link', 'session')),
    CHECK (length(hash) = 64)
);
CREATE INDEX sessions_of_token ON interlock.sessions (token, kind, created_us, id);
CREATE INDEX sessions_expire ON interlock.sessions (expires_us);

-- Requests that were carried out, with their answers; written in the transaction that carried them out.
CREATE TABLE interlock.requests (
    key    text COLLATE "C" PRIMARY KEY,
    asked  text NOT NULL,
    answer text NOT NULL,
    at_us  bigint NOT NULL
);
CREATE INDEX requests_at ON interlock.requests (at_us);

-- The labels that numbers have. A bounded number of them; what comes later is counted as `other`.
CREATE TABLE interlock.metric_labels (
    id       integer PRIMARY KEY,
    project  text COLLATE "C" NOT NULL,
    type     text COLLATE "C" NOT NULL,
    agent    text COLLATE "C" NOT NULL,
    priority text COLLATE "C" NOT NULL,
    UNIQUE (project, type, agent, priority)
);

-- How often something happened. `value` tells cases of one metric apart; of a histogram it is a bound, or `sum_us`.
CREATE TABLE interlock.metric_counts (
    metric text COLLATE "C" NOT NULL,
    value  text COLLATE "C" NOT NULL,
    labels integer NOT NULL REFERENCES interlock.metric_labels (id),
    n      bigint NOT NULL CHECK (n >= 0),
    PRIMARY KEY (metric, value, labels)
);

-- The numbers at one minute. `arrivals` and the columns after it count from the beginning of counting.
CREATE TABLE interlock.trend (
    minute      bigint PRIMARY KEY,
    ready       bigint NOT NULL,
    waiting     bigint NOT NULL,
    running     bigint NOT NULL,
    oldest_us   bigint NOT NULL,
    arrivals    bigint NOT NULL,
    claims      bigint NOT NULL,
    completions bigint NOT NULL,
    failures    bigint NOT NULL
);

-- The total of each run that reported one. A report is accepted after the run has ended too.
CREATE TABLE interlock.run_costs (
    run           bigint PRIMARY KEY,
    item          bigint NOT NULL,
    agent         text COLLATE "C" NOT NULL,
    micro_usd     bigint NOT NULL CHECK (micro_usd >= 0),
    input_tokens  bigint NOT NULL CHECK (input_tokens >= 0),
    output_tokens bigint NOT NULL CHECK (output_tokens >= 0),
    reported_us   bigint NOT NULL
);
CREATE INDEX run_costs_item ON interlock.run_costs (item);
CREATE INDEX run_costs_reported ON interlock.run_costs (reported_us);

-- The sums of each agent, pool and project by day. They stay when items are deleted.
CREATE TABLE interlock.spending (
    scope         text COLLATE "C" NOT NULL CHECK (scope IN ('agent', 'pool', 'project')),
    name          text COLLATE "C" NOT NULL,
    day           text COLLATE "C" NOT NULL CHECK (length(day) = 10),
    micro_usd     bigint NOT NULL,
    input_tokens  bigint NOT NULL,
    output_tokens bigint NOT NULL,
    PRIMARY KEY (scope, name, day)
);
CREATE INDEX spending_day ON interlock.spending (day DESC, scope, name);

-- What is kept of a run's output. No column refers to `items`: only a current run writes, and an item with one is not deleted.
CREATE TABLE interlock.run_logs (
    run       bigint PRIMARY KEY,
    item      bigint NOT NULL,
    size      bigint NOT NULL,
    last_line text NOT NULL,
    pieces    bigint NOT NULL,
    at_us     bigint NOT NULL
);
CREATE INDEX run_logs_item ON interlock.run_logs (item);

-- The pieces of it, by where they begin.
CREATE TABLE interlock.run_log_pieces (
    run   bigint NOT NULL REFERENCES interlock.run_logs (run) ON DELETE CASCADE,
    start bigint NOT NULL,
    text  text NOT NULL,
    PRIMARY KEY (run, start)
);

CREATE TABLE interlock.budgets (
    scope      text COLLATE "C" NOT NULL CHECK (scope IN ('agent', 'pool', 'project')),
    name       text COLLATE "C" NOT NULL,
    per        text COLLATE "C" NOT NULL CHECK (per IN ('day', 'month')),
    micro_usd  bigint NOT NULL CHECK (micro_usd >= 0),
    when_spent text COLLATE "C" NOT NULL CHECK (when_spent IN ('finish', 'cancel')),
    PRIMARY KEY (scope, name, per)
);

-- What a live run of a type holds back of the budgets that it counts for, less what it has reported.
CREATE TABLE interlock.reserves (
    type      text COLLATE "C" PRIMARY KEY,
    micro_usd bigint NOT NULL CHECK (micro_usd > 0)
);

-- What live runs hold back.
CREATE VIEW interlock.reserved_runs AS
    SELECT i.run, i.run_agent, i.project, greatest(r.micro_usd - coalesce(c.micro_usd, 0), 0) AS micro_usd
    FROM interlock.items i JOIN interlock.reserves r ON r.type = i.type LEFT JOIN interlock.run_costs c ON c.run = i.run
    WHERE i.status = 'in_progress';

-- Each budget with what live runs hold back of it.
CREATE VIEW interlock.budget_use AS
    SELECT b.*, CASE b.scope
        WHEN 'agent' THEN (SELECT sum(r.micro_usd) FROM interlock.reserved_runs r WHERE r.run_agent = b.name)
        WHEN 'pool' THEN (SELECT sum(r.micro_usd) FROM interlock.agents a JOIN interlock.reserved_runs r ON r.run_agent = a.key
            WHERE a.pool = b.name)
        ELSE (SELECT sum(r.micro_usd) FROM interlock.reserved_runs r WHERE r.project = b.name) END AS reserved
    FROM interlock.budgets b;

-- In which time zone days and months begin. Without a row it is UTC.
CREATE TABLE interlock.calendars (
    name      text COLLATE "C" PRIMARY KEY CHECK (name = 'store'),
    time_zone text NOT NULL
);

-- True if there is no budget, for a claim of the first item, which keeps none: as `expect`, and read by the same look.
CREATE FUNCTION interlock.expect_unbudgeted(known integer) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
DECLARE
    newest record;
BEGIN
    IF pg_is_in_recovery() THEN
        RAISE read_only_sql_transaction;
    END IF;
    SELECT version, serves, (SELECT value FROM interlock.meta WHERE name = 'identity') AS place,
        EXISTS (SELECT FROM interlock.budgets) AS budgeted INTO newest
        FROM interlock.migrations ORDER BY version DESC LIMIT 1;
    IF newest.serves > known OR (newest.place = current_setting('interlock.place', true)
        AND split_part(newest.place, '/', 3) = 'interlock.items'::regclass::oid::text) IS NOT TRUE
    THEN
        RETURN interlock.expect(known) AND NOT newest.budgeted;
    END IF;
    RETURN NOT newest.budgeted;
END $$;
CREATE INDEX items_asking_live ON interlock.items (id) WHERE status = 'in_progress' AND reason = 'asked';
