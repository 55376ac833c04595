-- Delete some expired answers.
DELETE FROM interlock.requests WHERE key = ANY(ARRAY(SELECT key FROM interlock.requests
    WHERE at_us <= (SELECT coalesce(%(now_us)s, interlock.clock_us())) - %(kept_us)s ORDER BY at_us LIMIT %(limit)s))
RETURNING key
