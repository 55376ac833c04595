-- Apply an edit to an item that has not started.
UPDATE items SET type = ?2, title = ?3, agent_key = ?4, priority = ?5, position = ?6, sort_key = ?7, labels = ?8, lease_s = ?9,
    timeout_s = ?10, max_attempts = ?11, retry_lane = ?12
WHERE id = ?1
