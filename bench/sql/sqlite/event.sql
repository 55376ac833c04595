-- Appends one line of history.
INSERT INTO events (at_us, kind, reason, project, item, run, agent, span_us) VALUES (?, ?, ?, ?, ?, ?, ?, ?);
