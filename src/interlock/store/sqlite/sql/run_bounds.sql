-- The numbers of the oldest and the newest ended run.
SELECT (SELECT min(run) FROM runs), (SELECT max(run) FROM runs)
