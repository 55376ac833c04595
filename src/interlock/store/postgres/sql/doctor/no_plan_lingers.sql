-- Finished plans are marked as ended.
-- mend: This must not happen; keep a copy of the database and report it.
SELECT 'plan ' || id FROM interlock.plans WHERE open_tasks = 0 AND cycle_us IS NULL AND ended_us IS NULL
