-- Move the deadlines of open edit cycles with the clock.
UPDATE plans SET cycle_us = cycle_us + :step_us, deadline_us = deadline_us + :step_us WHERE deadline_us IS NOT NULL
