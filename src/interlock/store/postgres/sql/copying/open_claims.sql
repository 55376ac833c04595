-- Let runs start again.
DROP FUNCTION IF EXISTS interlock.no_run_starts() CASCADE;
DELETE FROM interlock.meta WHERE name = 'closed'
