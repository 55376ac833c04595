-- Wake-ups in a row since a person's last message: counted for each lane, and for an item that has none; what would be one
-- too many waits for a person. And the agent of an item's last run, whose own messages do not wake it.
-- Serves: 16

ALTER TABLE lanes ADD COLUMN streak INTEGER NOT NULL DEFAULT 0;
ALTER TABLE lanes ADD COLUMN streak_run INTEGER;
ALTER TABLE items ADD COLUMN streak INTEGER NOT NULL DEFAULT 0;
ALTER TABLE items ADD COLUMN last_agent TEXT;

-- SQLite cannot change a CHECK; widening one in the text of the schema touches no row. See migration 3.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql,
    'CHECK (status <> ''waiting'' OR due_us IS NOT NULL OR plan IS NOT NULL)',
    'CHECK (status <> ''waiting'' OR due_us IS NOT NULL OR plan IS NOT NULL OR reason = ''loop'')')
WHERE type = 'table' AND name = 'items';
PRAGMA writable_schema = RESET;

CREATE INDEX items_stopped ON items (lane) WHERE status = 'waiting' AND reason = 'loop';
