-- No effect is more than 10 minutes overdue.
-- mend: interlock github send, with a token; let cron call it every minute, or run it with --watch.
SELECT r.name || '#' || box.number FROM interlock.github_outboxes AS box JOIN interlock.github_repositories AS r ON r.id = box.repository
WHERE box.due_us < %(now_us)s::bigint - 600000000 ORDER BY box.due_us
