-- The pieces of a run's output, in order. They are bounded, so all are read.
SELECT start, text FROM run_log_pieces WHERE run = :run ORDER BY start
