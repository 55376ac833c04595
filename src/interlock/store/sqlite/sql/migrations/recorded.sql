
-- What was applied, with the checksum of its text.
PRAGMA application_id = 1229737795; -- "ILOC", so that a foreign database is not mistaken for ours
CREATE TABLE IF NOT EXISTS migrations (
    version    INTEGER PRIMARY KEY,
    name       TEXT NOT NULL,
    checksum   TEXT NOT NULL,
    applied_us INTEGER NOT NULL
) STRICT;
INSERT INTO migrations (version, name, checksum, applied_us)
VALUES ({version}, '{name}', '{checksum}', CAST(unixepoch('now', 'subsec') * 1000000 AS INTEGER));
