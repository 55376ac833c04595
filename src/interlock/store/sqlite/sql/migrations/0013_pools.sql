-- Pools: a capacity that several agents share.
-- Serves: 13

CREATE TABLE pools (
    name            TEXT PRIMARY KEY,
    max_concurrency INTEGER NOT NULL CHECK (max_concurrency > 0)
) STRICT, WITHOUT ROWID;
ALTER TABLE agents ADD COLUMN pool TEXT REFERENCES pools (name);

-- How many runs the agents of each pool have together. One edit of a plan of each agent does not count.
CREATE VIEW pool_runs AS
SELECT p.name, p.max_concurrency, (
    SELECT ifnull(sum((SELECT count(*) - min(count(*) FILTER (WHERE type = 'plan.edit'), 1) FROM items
        WHERE run IS NOT NULL AND run_agent = a.key)), 0)
    FROM agents a WHERE a.pool = p.name) AS running
FROM pools p;

-- Agents that may start one more run: known, not paused, below their limit and that of their pool. One edit of a plan does
-- not count.
DROP VIEW free_agents;
CREATE VIEW free_agents AS
SELECT key FROM agents
WHERE paused_why IS NULL AND (max_concurrency IS NULL OR max_concurrency > (
    SELECT count(*) - min(count(*) FILTER (WHERE type = 'plan.edit'), 1) FROM items
    WHERE run IS NOT NULL AND run_agent = agents.key))
    AND (pool IS NULL OR EXISTS (SELECT 1 FROM pool_runs r WHERE r.name = agents.pool AND r.running < r.max_concurrency));
