-- Budgets: how much agents, pools and projects may spend, and what types reserve.
-- Serves: 41

CREATE TABLE interlock.budgets (
    scope      text COLLATE "C" NOT NULL CHECK (scope IN ('agent', 'pool', 'project')),
    name       text COLLATE "C" NOT NULL,
    per        text COLLATE "C" NOT NULL CHECK (per IN ('day', 'month')),
    micro_usd  bigint NOT NULL CHECK (micro_usd >= 0),
    when_spent text COLLATE "C" NOT NULL CHECK (when_spent IN ('finish', 'cancel')),
    PRIMARY KEY (scope, name, per)
);

-- What a live run of a type holds back of the budgets that it counts for, less what it has reported.
CREATE TABLE interlock.reserves (
    type      text COLLATE "C" PRIMARY KEY,
    micro_usd bigint NOT NULL CHECK (micro_usd > 0)
);

-- What live runs hold back.
CREATE VIEW interlock.reserved_runs AS
    SELECT i.run, i.run_agent, i.project, greatest(r.micro_usd - coalesce(c.micro_usd, 0), 0) AS micro_usd
    FROM interlock.items i JOIN interlock.reserves r ON r.type = i.type LEFT JOIN interlock.run_costs c ON c.run = i.run
    WHERE i.status = 'in_progress';

-- Each budget with what live runs hold back of it.
CREATE VIEW interlock.budget_use AS
    SELECT b.*, CASE b.scope
        WHEN 'agent' THEN (SELECT sum(r.micro_usd) FROM interlock.reserved_runs r WHERE r.run_agent = b.name)
        WHEN 'pool' THEN (SELECT sum(r.micro_usd) FROM interlock.agents a JOIN interlock.reserved_runs r ON r.run_agent = a.key
            WHERE a.pool = b.name)
        ELSE (SELECT sum(r.micro_usd) FROM interlock.reserved_runs r WHERE r.project = b.name) END AS reserved
    FROM interlock.budgets b;

-- In which time zone days and months begin. Without a row it is UTC.
CREATE TABLE interlock.calendars (
    name      text COLLATE "C" PRIMARY KEY CHECK (name = 'store'),
    time_zone text NOT NULL
);

-- True if there is no budget, for a claim of the first item, which keeps none: as `expect`, and read by the same look.
CREATE FUNCTION interlock.expect_unbudgeted(known integer) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
DECLARE
    newest record;
BEGIN
    IF pg_is_in_recovery() THEN
        RAISE read_only_sql_transaction;
    END IF;
    SELECT version, serves, (SELECT value FROM interlock.meta WHERE name = 'identity') AS place,
        EXISTS (SELECT FROM interlock.budgets) AS budgeted INTO newest
        FROM interlock.migrations ORDER BY version DESC LIMIT 1;
    IF newest.serves > known OR (newest.place = current_setting('interlock.place', true)
        AND split_part(newest.place, '/', 3) = 'interlock.items'::regclass::oid::text) IS NOT TRUE
    THEN
        RETURN interlock.expect(known) AND NOT newest.budgeted;
    END IF;
    RETURN NOT newest.budgeted;
END $$;
