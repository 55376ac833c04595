-- External runs: work outside, with no process that renews. They have no lease, and no deadline but a timeout or a grace.
-- Serves: 27

DO $$
DECLARE
    old text;
BEGIN
    -- By its columns: how its text is printed depends on settings.
    SELECT conname INTO STRICT old FROM pg_constraint
    WHERE conrelid = 'interlock.items'::regclass AND contype = 'c'
        AND ARRAY(SELECT attname::text FROM pg_attribute WHERE attrelid = conrelid AND attnum = ANY(conkey) ORDER BY attname)
            = ARRAY['due_us', 'lease_until_us', 'run_agent', 'status'];
    EXECUTE format('ALTER TABLE interlock.items DROP CONSTRAINT %I', old);
END $$;
ALTER TABLE interlock.items ADD CHECK (status <> 'in_progress' OR (run_agent IS NOT NULL AND (lease_until_us IS NULL OR due_us IS NOT NULL)));

CREATE INDEX items_external ON interlock.items (run) WHERE status = 'in_progress' AND lease_until_us IS NULL;
