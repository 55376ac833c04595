-- Cost: what runs used, by their own reports.
-- Serves: 41

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
