-- Budgets: how much agents, pools and projects may spend, and what types reserve.
-- Serves: 36

CREATE TABLE budgets (
    scope      TEXT NOT NULL CHECK (scope IN ('agent', 'pool', 'project')),
    name       TEXT NOT NULL,
    per        TEXT NOT NULL CHECK (per IN ('day', 'month')),
    micro_usd  INTEGER NOT NULL CHECK (micro_usd >= 0),
    when_spent TEXT NOT NULL CHECK (when_spent IN ('finish', 'cancel')),
    PRIMARY KEY (scope, name, per)
) STRICT;

-- What a live run of a type holds back of the budgets that it counts for, less what it has reported.
CREATE TABLE reserves (
    type      TEXT PRIMARY KEY,
    micro_usd INTEGER NOT NULL CHECK (micro_usd > 0)
) STRICT;

-- What live runs hold back.
CREATE VIEW reserved_runs AS
    SELECT i.run, i.run_agent, i.project, max(r.micro_usd - coalesce(c.micro_usd, 0), 0) AS micro_usd
    FROM items i INDEXED BY items_running JOIN reserves r ON r.type = i.type LEFT JOIN run_costs c ON c.run = i.run
    WHERE i.run IS NOT NULL;

-- Each budget with what live runs hold back of it.
CREATE VIEW budget_use AS
    SELECT b.*, CASE b.scope
        WHEN 'agent' THEN (SELECT sum(r.micro_usd) FROM reserved_runs r WHERE r.run_agent = b.name)
        WHEN 'pool' THEN (SELECT sum(r.micro_usd) FROM agents a JOIN reserved_runs r ON r.run_agent = a.key WHERE a.pool = b.name)
        ELSE (SELECT sum(r.micro_usd) FROM reserved_runs r WHERE r.project = b.name) END AS reserved
    FROM budgets b;

-- In which time zone days and months begin. Without a row it is UTC.
CREATE TABLE calendars (
    name      TEXT PRIMARY KEY CHECK (name = 'store'),
    time_zone TEXT NOT NULL
) STRICT;
