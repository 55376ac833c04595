-- The pieces of a run's output, in order. They are bounded, so all are read.
SELECT start, text FROM interlock.run_log_pieces WHERE run = %(run)s ORDER BY start
