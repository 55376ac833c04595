-- A new task of a plan.
INSERT INTO tasks (item, plan, key, rank, unmet, broken, doomed, added_revision, removed_revision)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
