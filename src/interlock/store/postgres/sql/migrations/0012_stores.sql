-- A store has a name of its own, and knows which stores it comes from.
-- Serves: 10

-- This store and its ancestors. An ancestor that was `copied` may still be in use; one that is `gone` or `sealed` is not.
CREATE TABLE interlock.stores (
    id    text COLLATE "C" PRIMARY KEY,
    state text COLLATE "C" NOT NULL CHECK (state IN ('this', 'copied', 'gone', 'sealed'))
);
CREATE UNIQUE INDEX stores_this ON interlock.stores (state) WHERE state = 'this';

-- A name for a store: 48 random bits.
CREATE FUNCTION interlock.new_store() RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT left(replace(gen_random_uuid()::text, '-', ''), 12)
$$;
INSERT INTO interlock.stores (id, state) VALUES (interlock.new_store(), 'this');

-- The database is taken to be where it is now. If it was elsewhere, commits may be lost, and with them numbers that somebody still
-- has: runs go on after the number given, items and events far above all that can have been given out, and the history says so. Each
-- call after the first changes nothing.
-- From then on it is another store. The one that it was is gone if this server has no other database that could be it; a copy on
-- another server, or of a database that is still there, may have left it in use.
-- With the rights of the schema's owner: a worker's role need not be able to set sequences.
CREATE OR REPLACE FUNCTION interlock.adopt(last_run bigint) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    here text := interlock.identity();
    there text;
    clock_us bigint := interlock.clock_us();
BEGIN
    INSERT INTO interlock.meta (name, value) VALUES ('identity', here) ON CONFLICT DO NOTHING;
    IF FOUND THEN  -- nothing was given out yet; the database it was made from has the same name
        UPDATE interlock.stores SET id = interlock.new_store() WHERE state = 'this';
    END IF;
    SELECT value INTO there FROM interlock.meta WHERE name = 'identity' FOR UPDATE;
    IF there = here THEN
        RETURN;
    END IF;
    PERFORM setval('interlock.run_numbers', (SELECT greatest(last_value, last_run) FROM interlock.run_numbers));
    PERFORM setval('interlock.item_ids', (SELECT last_value + 1000000 FROM interlock.item_ids));
    PERFORM setval('interlock.event_numbers', (SELECT last_value + 16000000 FROM interlock.event_numbers));
    UPDATE interlock.meta SET value = here WHERE name = 'identity';
    UPDATE interlock.stores SET state = CASE
            WHEN split_part(there, '/', 1) <> split_part(here, '/', 1) THEN 'copied'
            WHEN split_part(there, '/', 2) = split_part(here, '/', 2) THEN 'gone'
            WHEN EXISTS (SELECT FROM pg_database WHERE oid::text = split_part(there, '/', 2)) THEN 'copied'
            ELSE 'gone' END
        WHERE state = 'this';
    INSERT INTO interlock.stores (id, state) VALUES (interlock.new_store(), 'this');
    INSERT INTO interlock.meta (name, value) VALUES ('changed_us', clock_us) ON CONFLICT (name) DO UPDATE SET value = excluded.value;
    INSERT INTO interlock.events (seq, at_us, kind, reason, data) VALUES (interlock.next_seq(), clock_us, 'store.changed', '',
        json_build_object('was', there, 'now', here, 'last_run', last_run)::text);
END $$;
