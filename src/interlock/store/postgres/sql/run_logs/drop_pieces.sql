-- Forget the pieces of a run's output that begin before this place.
DELETE FROM interlock.run_log_pieces WHERE run = %(run)s AND start < %(before)s
