-- Claims of an agent with a limit go one by one, so that the limit holds; the count is a later statement.
SELECT key, name, max_concurrency, types, labels, paused_why, seen_us FROM interlock.agents
WHERE key = %(agent)s FOR NO KEY UPDATE
