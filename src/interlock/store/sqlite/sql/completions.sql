-- Completions of a plan after a number, oldest first, each with the result and error of its last run.
SELECT c.*, r.result, r.error FROM completions c
LEFT JOIN runs r ON r.run = (SELECT max(run) FROM runs WHERE item = c.item AND ended_us <= c.at_us)
WHERE c.plan = :plan AND c.n > :after ORDER BY c.n
