-- The run number given out last, the clock, and when the numbers last leapt past a fence.
SELECT last_value, interlock.clock_us(), (SELECT value::bigint FROM interlock.meta WHERE name = 'leapt_us') FROM interlock.run_numbers
