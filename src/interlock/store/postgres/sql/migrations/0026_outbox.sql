-- GitHub: what is owed to it, in order for each number, and what became of that.
-- Serves: 25

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

-- When the next effect may be sent: GitHub allows one account about 80 creations a minute and 500 an hour.
CREATE VIEW interlock.github_pace AS
SELECT greatest(
    coalesce((SELECT sent_us FROM interlock.github_effects WHERE sent_us IS NOT NULL ORDER BY sent_us DESC LIMIT 1 OFFSET 79) + 60000000, 0),
    coalesce((SELECT sent_us FROM interlock.github_effects WHERE sent_us IS NOT NULL ORDER BY sent_us DESC LIMIT 1 OFFSET 499) + 3600000000, 0)
) AS free_us;
