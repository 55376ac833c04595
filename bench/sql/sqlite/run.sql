-- Keeps the record of one run that ended.
INSERT INTO runs (run, item_id, agent, started_us, ended_us, status)
VALUES (:run, :id, :agent, :started_us, :now_us, 'succeeded');
