-- Run numbers go on after those that runs already have.
UPDATE counters SET value = (SELECT ifnull(max(run), 0) FROM runs) WHERE name = 'run';
