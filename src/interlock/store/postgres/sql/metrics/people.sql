-- The numbers of items that wait for a person's answer, and of those that wait for a person after too many wake-ups; each up to a limit.
SELECT
    (SELECT count(*) FROM (
        SELECT FROM interlock.items WHERE run IS NULL AND status IN ('waiting', 'pending') AND reason = 'asked' ORDER BY run, id LIMIT (SELECT %(limit)s::integer)) AS parked)
    + (SELECT count(*) FROM (
        SELECT FROM interlock.items WHERE status = 'in_progress' AND reason = 'asked' ORDER BY id LIMIT (SELECT %(limit)s::integer)) AS live),
    (SELECT count(*) FROM (
        SELECT FROM interlock.items WHERE NOT gated AND status = 'waiting' AND reason = 'loop' ORDER BY lane LIMIT (SELECT %(limit)s::integer)) AS stopped)
