-- GitHub: what is owed to it, in order for each number, and what became of that.
-- Serves: 21

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

-- When the next effect may be sent: GitHub allows one account about 80 creations a minute and 500 an hour.
CREATE VIEW github_pace AS
SELECT max(
    coalesce((SELECT sent_us FROM github_effects WHERE sent_us IS NOT NULL ORDER BY sent_us DESC LIMIT 1 OFFSET 79) + 60000000, 0),
    coalesce((SELECT sent_us FROM github_effects WHERE sent_us IS NOT NULL ORDER BY sent_us DESC LIMIT 1 OFFSET 499) + 3600000000, 0)
) AS free_us;
