-- Set a task's place in its graph, as decided.
UPDATE tasks SET rank = ?4, unmet = ?5, broken = ?6, doomed = ?7, removed_revision = ?9 WHERE item = ?1
