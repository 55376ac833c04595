-- GitHub: which runs a pull request or a commit comes from, what its checks say, and the workflow runs that checked it.
-- Serves: 28

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
