-- External runs: work outside, with no process that renews. They have no lease, and no deadline but a timeout or a grace.
-- Serves: 23

-- SQLite cannot change a CHECK; widening one in the text of the schema touches no row. See migration 3.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql,
    'CHECK (status <> ''in_progress'' OR (due_us IS NOT NULL AND lease_until_us IS NOT NULL AND run_agent IS NOT NULL))',
    'CHECK (status <> ''in_progress'' OR (run_agent IS NOT NULL AND (lease_until_us IS NULL OR due_us IS NOT NULL)))')
WHERE type = 'table' AND name = 'items';
PRAGMA writable_schema = RESET;

CREATE INDEX items_external ON items (run) WHERE status = 'in_progress' AND lease_until_us IS NULL;
