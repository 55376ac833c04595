-- Due deliveries, the longest due first.
SELECT id FROM github_deliveries WHERE due_us <= :now_us ORDER BY due_us LIMIT :limit
