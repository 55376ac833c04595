-- How many items wait for the answer of a person, and how many for a person since their wake-ups were too many; each up to a limit.
SELECT
    (SELECT count(*) FROM (
        SELECT FROM interlock.items WHERE status IN ('waiting', 'pending') AND reason = 'asked' ORDER BY id LIMIT (SELECT %(limit)s::integer)) AS asking),
    (SELECT count(*) FROM (
        SELECT FROM interlock.items WHERE status = 'waiting' AND reason = 'loop' ORDER BY lane LIMIT (SELECT %(limit)s::integer)) AS stopped)
