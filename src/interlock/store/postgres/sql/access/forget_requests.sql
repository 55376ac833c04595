-- Answers are kept for a time; some of those that are too old go.
DELETE FROM interlock.requests WHERE key IN (SELECT key FROM interlock.requests WHERE at_us <= coalesce(%(now_us)s, interlock.clock_us()) - %(kept_us)s ORDER BY at_us LIMIT %(limit)s)
RETURNING key
