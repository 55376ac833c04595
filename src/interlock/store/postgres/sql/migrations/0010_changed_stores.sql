-- A store that went back in time notices before it gives out a number: after a failover that lost commits, or a restore elsewhere.
-- Serves: 10

-- Where this database is: its server's identifier, its own number there, its table of items, and the timeline, which a promotion
-- changes. The control file's timeline lags behind a promotion, so it is read from the log's.
CREATE FUNCTION interlock.identity() RETURNS text LANGUAGE sql STABLE AS $$
    SELECT concat_ws('/', system_identifier, (SELECT oid FROM pg_database WHERE datname = current_database()),
        'interlock.items'::regclass::oid, left(pg_walfile_name(pg_current_wal_lsn()), 8))
    FROM pg_control_system()
$$;

-- True, or an error: a process that knows only this schema version may write, and the numbers are those of this database.
CREATE OR REPLACE FUNCTION interlock.expect(known integer) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
DECLARE
    newest record;
BEGIN
    IF pg_is_in_recovery() THEN
        RAISE read_only_sql_transaction;
    END IF;
    SELECT version, serves INTO newest FROM interlock.migrations ORDER BY version DESC LIMIT 1;
    IF newest.serves > known THEN
        RAISE EXCEPTION USING ERRCODE = 'IL001', MESSAGE = format(
            'The database has schema version %s, this Interlock knows %s.', newest.version, known);
    END IF;
    IF (SELECT value FROM interlock.meta WHERE name = 'identity') IS DISTINCT FROM interlock.identity() THEN
        RAISE EXCEPTION USING ERRCODE = 'IL002', MESSAGE = 'The numbers are not moved forward to this server yet.';
    END IF;
    RETURN true;
END $$;

-- The database is taken to be where it is now. If it was elsewhere, commits may be lost, and with them numbers that somebody still
-- has: runs go on after the number given, items and events far above all that can have been given out, and the history says so. Each
-- call after the first changes nothing.
-- With the rights of the schema's owner: a worker's role need not be able to set sequences.
CREATE FUNCTION interlock.adopt(last_run bigint) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    here text := interlock.identity();
    there text;
    clock_us bigint := interlock.clock_us();
BEGIN
    INSERT INTO interlock.meta (name, value) VALUES ('identity', here) ON CONFLICT DO NOTHING;
    SELECT value INTO there FROM interlock.meta WHERE name = 'identity' FOR UPDATE;
    IF there = here THEN
        RETURN;
    END IF;
    PERFORM setval('interlock.run_numbers', (SELECT greatest(last_value, last_run) FROM interlock.run_numbers));
    PERFORM setval('interlock.item_ids', (SELECT last_value + 1000000 FROM interlock.item_ids));
    PERFORM setval('interlock.event_numbers', (SELECT last_value + 16000000 FROM interlock.event_numbers));
    UPDATE interlock.meta SET value = here WHERE name = 'identity';
    INSERT INTO interlock.meta (name, value) VALUES ('changed_us', clock_us) ON CONFLICT (name) DO UPDATE SET value = excluded.value;
    INSERT INTO interlock.events (seq, at_us, kind, reason, data) VALUES (interlock.next_seq(), clock_us, 'store.changed', '',
        json_build_object('was', there, 'now', here, 'last_run', last_run)::text);
END $$;
