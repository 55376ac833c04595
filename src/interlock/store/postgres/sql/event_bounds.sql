-- The numbers of the oldest and the newest event.
SELECT (SELECT min(seq) FROM interlock.events), (SELECT max(seq) FROM interlock.events)
