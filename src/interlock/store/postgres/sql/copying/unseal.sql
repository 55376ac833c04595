-- Accept writes to every table again.
DROP FUNCTION IF EXISTS interlock.refuse_write() CASCADE;
DELETE FROM interlock.meta WHERE name = 'sealed'
