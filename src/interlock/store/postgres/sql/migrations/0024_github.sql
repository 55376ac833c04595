-- GitHub: what it sent, what its issues and pull requests were when they were last read, and what follows.
-- Serves: 23

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

-- Answers of GitHub with their ETags: an unchanged one costs nothing of the allowance.
CREATE TABLE interlock.github_answers (
    key     text COLLATE "C" PRIMARY KEY,
    etag    text NOT NULL,
    link    text,
    body    bytea NOT NULL,
    kept_us bigint NOT NULL
);
CREATE INDEX github_answers_kept ON interlock.github_answers (kept_us);
