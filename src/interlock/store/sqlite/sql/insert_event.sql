-- Add an event. There is one writer at a time, so numbers are in commit order.
INSERT INTO events (at_us, kind, reason, project, item, run, lane, agent, span_us, data)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
