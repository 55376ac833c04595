-- The number of the newest event.
SELECT coalesce(max(seq), 0) FROM events
