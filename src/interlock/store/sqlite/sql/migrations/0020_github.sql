-- GitHub: what it sent, what its issues and pull requests were when they were last read, and what follows.
-- Serves: 19

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

-- Answers of GitHub with their ETags: an unchanged one costs nothing of the allowance.
CREATE TABLE github_answers (
    key     TEXT PRIMARY KEY,
    etag    TEXT NOT NULL,
    link    TEXT,
    body    BLOB NOT NULL,
    kept_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX github_answers_kept ON github_answers (kept_us);
