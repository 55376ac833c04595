-- Events of the window by kind and reason, and how many items failed for good with them.
SELECT kind, reason, count(*), sum(CASE WHEN kind IN ('run.failed', 'run.lost', 'run.timed_out') THEN json_extract(data, '$.item_status') = 'failed' ELSE 0 END)
FROM events WHERE seq >= :first GROUP BY kind, reason
