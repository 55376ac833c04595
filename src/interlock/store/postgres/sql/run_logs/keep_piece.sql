-- Keep a piece of a run's output.
INSERT INTO interlock.run_log_pieces (run, start, text) VALUES (%(run)s, %(start)s, %(text)s)
