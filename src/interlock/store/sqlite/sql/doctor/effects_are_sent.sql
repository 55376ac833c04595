-- No effect is more than 10 minutes overdue.
-- mend: interlock github send, with a token; for a receiver of notices, interlock notify send. Let cron call it, or run a server.
SELECT r.name || CASE WHEN box.number = 0 THEN '' ELSE '#' || box.number END FROM github_outboxes AS box JOIN github_repositories AS r ON r.id = box.repository
WHERE box.due_us < :now_us - 600000000 ORDER BY box.due_us
