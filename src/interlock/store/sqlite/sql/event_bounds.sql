-- The numbers of the oldest and the newest event.
SELECT (SELECT min(seq) FROM events), (SELECT max(seq) FROM events)
