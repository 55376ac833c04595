-- The last run number given out, and the clock.
SELECT last_value, interlock.clock_us() FROM interlock.run_numbers
