-- Answers are kept for a time; some of those that are too old go.
WITH old AS MATERIALIZED (
    SELECT key FROM interlock.requests
    WHERE at_us <= (SELECT coalesce(%(now_us)s, interlock.clock_us())) - %(kept_us)s ORDER BY at_us LIMIT %(limit)s
)
DELETE FROM interlock.requests WHERE key = ANY (ARRAY(SELECT key FROM old)) RETURNING key
