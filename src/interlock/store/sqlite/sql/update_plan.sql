-- Set all parts of a plan that the rules may change: its state, its counts, and its editor's deadline.
UPDATE plans SET
    edit_deadline_s = ?5, status = ?6, revision = ?8, paused_why = ?9, ended_us = ?10, tasks = ?11, edges = ?12,
    open_tasks = ?13, completed = ?14, failed = ?15, cycle_us = ?16, deadline_us = ?17, edit_item = ?18, last_n = ?19,
    answered_n = ?20, edits_completed = ?21, edits_timed_out = ?22, edits_refused = ?23, edits_rebased = ?24,
    cycles = ?25, lock_us = ?26, edits_failed = ?27
WHERE id = ?1
