-- The number of undecided deliveries, the number of those that are retried automatically, and since when the oldest of these waits; up to a limit.
SELECT count(*), count(due_us), min(CASE WHEN due_us IS NOT NULL THEN received_us END) FROM (
    SELECT due_us, received_us FROM github_deliveries WHERE body IS NOT NULL ORDER BY received_us LIMIT :limit
)
