-- Refuse all writes to any table, by any version, with an error that names the new place. Every session that locks the table after
-- this commit sees the trigger, however old its snapshot is.
CREATE FUNCTION interlock.refuse_write() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    place text := (SELECT value::json ->> 'place' FROM interlock.meta WHERE name = 'sealed');
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', CONSTRAINT = 'sealed', DETAIL = place,
        MESSAGE = format('This store is sealed for its copy to %s, and takes no more writes', place);
END $$;
DO $$
DECLARE
    name text;
BEGIN
    FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'interlock' LOOP
        EXECUTE format('CREATE TRIGGER sealed BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON interlock.%I'
            ' FOR EACH STATEMENT EXECUTE FUNCTION interlock.refuse_write()', name);
    END LOOP;
END $$
