-- The same for the deadlines of edits.
UPDATE interlock.plans SET deadline_us = deadline_us - %(step_us)s
WHERE deadline_us > %(now_us)s + (edit_deadline_s * 1000000)::bigint
