-- Forget the pieces of a run's output that begin before this place.
DELETE FROM run_log_pieces WHERE run = :run AND start < :before
