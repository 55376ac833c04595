-- GitHub: which runs a pull request or a commit comes from, what its checks say, and the workflow runs that checked it.
-- Serves: 24

-- A pull request, whose head moves, or a commit in none (number 0). Checks are followed where a run is linked to it.
CREATE TABLE github_heads (
    repository INTEGER NOT NULL REFERENCES github_repositories (id),
    number     INTEGER NOT NULL,
    commit_id  TEXT NOT NULL,
    revision   INTEGER NOT NULL,
    head       TEXT NOT NULL,
    branch     TEXT NOT NULL,
    url        TEXT NOT NULL,
    outcome    TEXT,
    ci_outcome TEXT,
    ci_why     TEXT NOT NULL,
    followed   INTEGER NOT NULL,
    head_us    INTEGER NOT NULL,
    ci_us      INTEGER NOT NULL,
    looked_us  INTEGER NOT NULL,
    PRIMARY KEY (repository, number, commit_id),
    CHECK ((number = 0) = (commit_id <> '')),
    CHECK ((number = 0) = (outcome IS NULL)),
    CHECK (outcome IN ('open', 'merged', 'closed')),
    CHECK (ci_outcome IN ('pending', 'success', 'failure', 'cancelled'))
) STRICT, WITHOUT ROWID;
CREATE INDEX github_heads_open ON github_heads (looked_us) WHERE followed = 1 AND (outcome = 'open' OR (number = 0 AND ci_outcome = 'pending'));
CREATE INDEX github_heads_commits ON github_heads (head_us) WHERE number = 0;

-- Runs that a pull request or a commit comes from, and how that was found.
CREATE TABLE github_links (
    run        INTEGER NOT NULL,
    repository INTEGER NOT NULL,
    number     INTEGER NOT NULL,
    commit_id  TEXT NOT NULL,
    item       INTEGER NOT NULL,
    how        TEXT NOT NULL,
    linked_us  INTEGER NOT NULL,
    PRIMARY KEY (run, repository, number, commit_id),
    FOREIGN KEY (repository, number, commit_id) REFERENCES github_heads (repository, number, commit_id),
    CHECK (how IN ('trailer', 'branch', 'closes'))
) STRICT, WITHOUT ROWID;
CREATE INDEX github_links_item ON github_links (item);
CREATE INDEX github_links_head ON github_links (repository, number, commit_id);

-- Workflow runs of followed heads in their newest attempts, with where their logs and artifacts are, and until when.
CREATE TABLE github_workflow_runs (
    repository    INTEGER NOT NULL REFERENCES github_repositories (id),
    id            INTEGER NOT NULL,
    head          TEXT NOT NULL,
    attempt       INTEGER NOT NULL,
    name          TEXT NOT NULL,
    status        TEXT NOT NULL,
    conclusion    TEXT,
    url           TEXT NOT NULL,
    logs_url      TEXT NOT NULL,
    logs_until_us INTEGER NOT NULL,
    artifacts     TEXT NOT NULL,
    begun_us      INTEGER NOT NULL,
    PRIMARY KEY (repository, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX github_workflow_runs_head ON github_workflow_runs (head, id);
CREATE INDEX github_workflow_runs_begun ON github_workflow_runs (begun_us);

-- Links with what they lead to. `newest` marks the one that speaks for its item: of the pull request that was opened last.
CREATE VIEW github_followed AS
SELECT l.run, l.item, l.repository, l.number, l.commit_id, l.how, l.linked_us, r.name, h.head, h.branch, h.url,
    h.outcome, h.ci_outcome, h.ci_why, h.head_us, h.ci_us,
    NOT EXISTS (SELECT 1 FROM github_links o WHERE o.item = l.item
        AND (o.number, o.run, o.linked_us, o.commit_id) > (l.number, l.run, l.linked_us, l.commit_id)) AS newest
FROM github_links l
JOIN github_heads h ON h.repository = l.repository AND h.number = l.number AND h.commit_id = l.commit_id
JOIN github_repositories r ON r.id = l.repository;
