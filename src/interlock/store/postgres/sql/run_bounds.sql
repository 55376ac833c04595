-- The numbers of the oldest and the newest ended run.
SELECT (SELECT min(run) FROM interlock.runs), (SELECT max(run) FROM interlock.runs)
