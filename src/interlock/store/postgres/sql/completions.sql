-- Completions of a plan after a number, oldest first, each with the result and error of its last run.
SELECT c.*, r.result, r.error FROM interlock.completions c
LEFT JOIN interlock.runs r ON r.run = (SELECT max(run) FROM interlock.runs WHERE item = c.item AND ended_us <= c.at_us)
WHERE c.plan = %(plan)s AND c.n > %(after)s ORDER BY c.n
