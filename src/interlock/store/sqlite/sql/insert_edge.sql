-- An edge joins a plan.
INSERT INTO edges (source, target, plan, "when", on_cancel, state) VALUES (?, ?, ?, ?, ?, ?)
