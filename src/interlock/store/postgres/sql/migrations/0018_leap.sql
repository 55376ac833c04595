-- A store that was set back without noticing goes on above the fences that it meets.
-- Serves: 17

-- Runs go on after the number given, unless they have gone further already; the history says why. No number reaches 2^62.
-- With the rights of the schema's owner: a worker's role need not be able to set sequences.
CREATE FUNCTION interlock.leap(past bigint, last_run bigint, run bigint, lane text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    clock_us bigint := interlock.clock_us();
BEGIN
    PERFORM FROM interlock.meta WHERE name = 'identity' FOR UPDATE;  -- one after the other
    IF last_run >= 1::bigint << 62 OR last_run <= (SELECT last_value FROM interlock.run_numbers) THEN
        RETURN;
    END IF;
    PERFORM setval('interlock.run_numbers', last_run);
    INSERT INTO interlock.meta (name, value) VALUES ('leapt_us', clock_us) ON CONFLICT (name) DO UPDATE SET value = excluded.value;
    INSERT INTO interlock.events (seq, at_us, kind, reason, run, lane, data) VALUES (interlock.next_seq(), clock_us, 'store.leapt', '',
        leap.run, leap.lane, json_build_object('past', past, 'last_run', last_run)::text);
END $$;
