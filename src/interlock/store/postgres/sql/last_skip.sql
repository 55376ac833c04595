-- The last run number allocated, the clock, and when run numbers last skipped past a fence.
SELECT last_value, interlock.clock_us(), (SELECT value::bigint FROM interlock.meta WHERE name = 'leapt_us') FROM interlock.run_numbers
