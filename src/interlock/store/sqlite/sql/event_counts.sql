-- The numbers of events from a number on, by kind and reason, for at most the newest; the time of the oldest; and the number of items that failed for good with them.
SELECT kind, reason, count(*), min(at_us), sum(CASE WHEN kind IN ('run.failed', 'run.lost', 'run.timed_out') THEN json_extract(data, '$.item_status') = 'failed' ELSE 0 END)
FROM (
    SELECT kind, reason, at_us, data FROM events WHERE seq >= :seq ORDER BY seq DESC LIMIT :limit
) AS newest
GROUP BY kind, reason
