-- Correct deadlines of edits that were counted from a clock that was ahead.
UPDATE interlock.plans SET deadline_us = deadline_us - %(step_us)s
WHERE deadline_us > %(now_us)s + (edit_deadline_s * 1000000)::bigint
