-- Completes one item if its run still is the current one.
UPDATE items
SET status = 'completed', current_run = NULL, due_us = NULL
WHERE id = :id AND current_run = :run
RETURNING ticket, run_started_us, run_agent;
