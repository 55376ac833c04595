-- Wake-ups in a row since a person's last message: counted for each lane, and for an item that has none; what would be one too many
-- waits for a person. And the agent of an item's last run, whose own messages do not wake it.
-- Serves: 20

ALTER TABLE interlock.lanes
    ADD COLUMN streak     integer NOT NULL DEFAULT 0,
    ADD COLUMN streak_run bigint;

ALTER TABLE interlock.items
    ADD COLUMN streak     integer NOT NULL DEFAULT 0,
    ADD COLUMN last_agent text;

DO $$
DECLARE
    old text;
BEGIN
    -- By its columns: how its text is printed depends on settings.
    SELECT conname INTO STRICT old FROM pg_constraint
    WHERE conrelid = 'interlock.items'::regclass AND contype = 'c'
        AND ARRAY(SELECT attname::text FROM pg_attribute WHERE attrelid = conrelid AND attnum = ANY(conkey) ORDER BY attname)
            = ARRAY['due_us', 'plan', 'status'];
    EXECUTE format('ALTER TABLE interlock.items DROP CONSTRAINT %I', old);
END $$;
ALTER TABLE interlock.items ADD CHECK (status <> 'waiting' OR due_us IS NOT NULL OR plan IS NOT NULL OR reason = 'loop');

CREATE INDEX items_stopped ON interlock.items (lane) WHERE status = 'waiting' AND reason = 'loop';
