-- Let runs start again.
DROP TRIGGER IF EXISTS no_run_starts;
DELETE FROM meta WHERE name = 'closed'
