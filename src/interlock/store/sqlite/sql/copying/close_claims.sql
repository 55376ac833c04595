-- Let no run start, by any version, until the time in `meta`. The process that copies the store keeps that in the future. If it
-- dies, runs start again.
CREATE TRIGGER IF NOT EXISTS no_run_starts BEFORE UPDATE OF run ON items
WHEN OLD.run IS NULL AND NEW.run IS NOT NULL AND (SELECT value ->> 'until_s' FROM meta WHERE name = 'closed') > unixepoch()
BEGIN
    SELECT RAISE(ABORT, 'The store is being copied to {place}, and no run starts meanwhile.');
END
