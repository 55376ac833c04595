-- Add the end of a task, which the editor answers.
INSERT INTO completions (plan, n, item, key, status, at_us) VALUES (?, ?, ?, ?, ?, ?)
