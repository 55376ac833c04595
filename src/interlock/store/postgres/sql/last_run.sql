-- The run number given out last, and the clock.
SELECT last_value, interlock.clock_us() FROM interlock.run_numbers
