-- Sixty-four random bits for each run, beside its number: on its item while it lives, in `runs` afterwards. A write of a run is
-- accepted iff both are equal. Runs that were live before get bits that nobody holds: their holders have lost their leases.

ALTER TABLE interlock.items ADD COLUMN run_bits bigint;
ALTER TABLE interlock.runs ADD COLUMN bits bigint;

-- From the server's strong source of randomness. A UUID has fixed bits, but not among its first four or last twelve digits.
CREATE FUNCTION interlock.random_bits() RETURNS bigint LANGUAGE sql VOLATILE
    AS $$ SELECT ('x' || overlay(gen_random_uuid()::text PLACING '' FROM 5 FOR 20))::bit(64)::bigint $$;

UPDATE interlock.items SET run_bits = interlock.random_bits() WHERE run IS NOT NULL;
ALTER TABLE interlock.items ADD CHECK ((run IS NULL) = (run_bits IS NULL));

-- Handles were made with it.
DELETE FROM interlock.meta WHERE name = 'handle_key';
