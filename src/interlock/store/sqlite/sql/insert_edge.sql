-- Add an edge to a plan.
INSERT INTO edges (source, target, plan, "when", on_cancel, state) VALUES (?, ?, ?, ?, ?, ?)
