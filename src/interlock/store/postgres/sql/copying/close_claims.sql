-- Let no run start, by any version, until the time in `meta`. The process that copies the store keeps that in the future. If it
-- dies, runs start again.
CREATE OR REPLACE FUNCTION interlock.no_run_starts() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    closed json := (SELECT value FROM interlock.meta WHERE name = 'closed');
BEGIN
    IF (closed ->> 'until_s')::bigint > extract(epoch FROM clock_timestamp()) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', CONSTRAINT = 'no_run_starts',
            MESSAGE = format('The store is being copied to %s, and no run starts meanwhile', closed ->> 'place');
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER no_run_starts BEFORE UPDATE OF run ON interlock.items
FOR EACH ROW WHEN (OLD.run IS NULL AND NEW.run IS NOT NULL) EXECUTE FUNCTION interlock.no_run_starts()
