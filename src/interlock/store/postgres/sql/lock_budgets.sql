-- Lock the budgets of an agent, of its pool and of all projects, in a fixed order, after pool and agent and before any lane, so that
-- claims that count for one run one by one. What is spent and reserved is read by a later statement.
SELECT scope FROM interlock.budgets
WHERE scope = 'project' OR (scope = 'agent' AND name = %(agent)s) OR (scope = 'pool' AND name = %(pool)s)
ORDER BY scope, name, per FOR NO KEY UPDATE
