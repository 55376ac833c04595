-- Starts one item that the same transaction found ready.
UPDATE items
SET status = 'in_progress', attempt = attempt + 1, current_run = :run, run_agent = :agent,
    run_started_us = :now_us, due_us = :now_us + 60000000
WHERE id = :id;
