-- What an edit asks of a task that has not started.
UPDATE items SET type = ?2, title = ?3, agent_key = ?4, priority = ?5, sort_key = ?6, labels = ?7, lease_s = ?8,
    timeout_s = ?9, max_attempts = ?10, retry_lane = ?11
WHERE id = ?1
