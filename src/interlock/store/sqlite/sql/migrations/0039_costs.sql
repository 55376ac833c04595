-- Cost: what runs used, by their own reports.
-- Serves: 36

-- The total of each run that reported one. A report is accepted after the run has ended too.
CREATE TABLE run_costs (
    run           INTEGER PRIMARY KEY,
    item          INTEGER NOT NULL,
    agent         TEXT NOT NULL,
    micro_usd     INTEGER NOT NULL CHECK (micro_usd >= 0),
    input_tokens  INTEGER NOT NULL CHECK (input_tokens >= 0),
    output_tokens INTEGER NOT NULL CHECK (output_tokens >= 0),
    reported_us   INTEGER NOT NULL
) STRICT;
CREATE INDEX run_costs_item ON run_costs (item);
CREATE INDEX run_costs_reported ON run_costs (reported_us);

-- The sums of each agent, pool and project by day. They stay when items are deleted.
CREATE TABLE spending (
    scope         TEXT NOT NULL CHECK (scope IN ('agent', 'pool', 'project')),
    name          TEXT NOT NULL,
    day           TEXT NOT NULL CHECK (length(day) = 10),
    micro_usd     INTEGER NOT NULL,
    input_tokens  INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    PRIMARY KEY (scope, name, day)
) STRICT;
CREATE INDEX spending_day ON spending (day DESC, scope, name);
