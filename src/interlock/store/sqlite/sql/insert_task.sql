-- Add a task to a plan.
INSERT INTO tasks (item, plan, key, rank, unmet, broken, doomed, added_revision, removed_revision)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
