-- The end of a task, for the editor.
INSERT INTO completions (plan, n, item, key, status, at_us) VALUES (?, ?, ?, ?, ?, ?)
