-- Processes of two versions beside each other: a migration records the oldest schema version that it serves, and a writer names
-- the one that it knows.
-- Serves: 8

ALTER TABLE interlock.migrations ADD COLUMN serves integer;

-- True, or an error: a process that knows only this schema version may write.
CREATE FUNCTION interlock.expect(known integer) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
DECLARE
    newest record;
BEGIN
    SELECT version, serves INTO newest FROM interlock.migrations ORDER BY version DESC LIMIT 1;
    IF newest.serves > known THEN
        RAISE EXCEPTION USING ERRCODE = 'IL001', MESSAGE = format(
            'The database has schema version %s, this Interlock knows %s.', newest.version, known);
    END IF;
    RETURN true;
END $$;

-- Microseconds since 1970, now and not at the start of the transaction.
CREATE FUNCTION interlock.clock_us() RETURNS bigint LANGUAGE sql VOLATILE
    AS $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint $$;

-- Version 0.1.0 reads the clock by this name in all that it writes, and puts this kind of error into words.
CREATE OR REPLACE FUNCTION interlock.now_us() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
        MESSAGE = 'it was upgraded for newer versions than this one (0.1.0), so install a newer Interlock';
END $$;
