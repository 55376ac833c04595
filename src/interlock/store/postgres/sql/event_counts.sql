-- The numbers of events from a number on, by kind and reason, for at most the newest; the time of the oldest; and the number of items that failed for good with them.
SELECT kind, reason, count(*), min(at_us), sum(CASE WHEN kind IN ('run.failed', 'run.lost', 'run.timed_out') THEN (data::json ->> 'item_status' = 'failed')::integer ELSE 0 END)
FROM (
    SELECT kind, reason, at_us, data FROM interlock.events WHERE seq >= %(seq)s ORDER BY seq DESC LIMIT (SELECT %(limit)s::integer)
) AS newest
GROUP BY kind, reason
