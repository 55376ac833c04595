-- GitHub: what a repository wants to see, which issues pull requests close, and reactions of runs.
-- Serves: 28

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
