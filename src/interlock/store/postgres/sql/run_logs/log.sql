-- What is known of a run's output.
SELECT run, item, size, last_line, at_us FROM interlock.run_logs WHERE run = %(run)s
