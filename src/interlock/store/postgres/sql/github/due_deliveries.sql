-- Due deliveries, the longest due first.
SELECT id FROM interlock.github_deliveries WHERE due_us <= (SELECT coalesce(%(now_us)s, interlock.clock_us())) ORDER BY due_us LIMIT %(limit)s
