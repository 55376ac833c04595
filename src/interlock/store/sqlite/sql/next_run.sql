-- The number of the next run; `reserve` takes it and those after it.
SELECT value + 1 FROM counters WHERE name = 'run'
