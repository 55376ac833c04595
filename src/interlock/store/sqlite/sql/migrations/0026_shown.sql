-- GitHub: what a repository wants to see, which issues pull requests close, and reactions of runs.
-- Serves: 24

-- What the rules of a repository say that it is shown; without a row, nothing.
CREATE TABLE github_choices (
    repository  INTEGER PRIMARY KEY REFERENCES github_repositories (id),
    comments    INTEGER NOT NULL CHECK (comments IN (0, 1)),
    lane_status INTEGER NOT NULL CHECK (lane_status IN (0, 1))
) STRICT;

-- The issues that open pull requests close, as they were read last.
CREATE TABLE github_closes (
    repository INTEGER NOT NULL,
    issue      INTEGER NOT NULL,
    pull       INTEGER NOT NULL,
    PRIMARY KEY (repository, issue, pull),
    FOREIGN KEY (repository, pull) REFERENCES github_numbers (repository, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX github_closes_of_pull ON github_closes (repository, pull);

-- The reaction that says that a run is at work, from before it is there until it is gone.
CREATE TABLE github_signs (
    run        INTEGER PRIMARY KEY,
    item       INTEGER NOT NULL,
    repository INTEGER NOT NULL REFERENCES github_repositories (id),
    number     INTEGER NOT NULL,
    kind       TEXT NOT NULL,
    subject    INTEGER NOT NULL,
    reaction   INTEGER
) STRICT;
CREATE INDEX github_signs_subject ON github_signs (repository, kind, subject);
