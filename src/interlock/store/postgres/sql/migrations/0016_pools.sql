-- Pools: a capacity that several agents share.
-- Serves: 16

CREATE TABLE interlock.pools (
    name            text COLLATE "C" PRIMARY KEY,
    max_concurrency integer NOT NULL CHECK (max_concurrency > 0)
);
ALTER TABLE interlock.agents ADD COLUMN pool text COLLATE "C" REFERENCES interlock.pools (name);

-- How many runs the agents of each pool have together. One edit of a plan of each agent does not count.
CREATE VIEW interlock.pool_runs AS
    SELECT p.name, p.max_concurrency, (
        SELECT coalesce(sum((SELECT count(*) - least(count(*) FILTER (WHERE type = 'plan.edit'), 1) FROM interlock.items
            WHERE status = 'in_progress' AND run_agent = a.key)), 0)::integer
        FROM interlock.agents a WHERE a.pool = p.name) AS running
    FROM interlock.pools p;

-- Agents that may start one more run: known, not paused, below their limit and that of their pool. One edit of a plan does not count.
CREATE OR REPLACE VIEW interlock.free_agents AS
    SELECT key FROM interlock.agents a
    WHERE paused_why IS NULL AND (max_concurrency IS NULL OR max_concurrency > (
        SELECT count(*) - least(count(*) FILTER (WHERE type = 'plan.edit'), 1) FROM interlock.items
        WHERE status = 'in_progress' AND run_agent = a.key))
        AND (pool IS NULL OR EXISTS (SELECT FROM interlock.pool_runs r WHERE r.name = a.pool AND r.running < r.max_concurrency));
