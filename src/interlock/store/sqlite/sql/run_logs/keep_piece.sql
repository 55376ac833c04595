-- Keep a piece of a run's output.
INSERT INTO run_log_pieces (run, start, text) VALUES (:run, :start, :text)
