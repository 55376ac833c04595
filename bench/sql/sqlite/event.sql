-- Appends one event.
INSERT INTO events (at_us, kind, item_id, run, agent, reason) VALUES (:now_us, :kind, :id, :run, :agent, :reason);
