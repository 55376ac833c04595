
-- What was applied, with the checksum of its text.
CREATE TABLE IF NOT EXISTS interlock.migrations (
    version    integer PRIMARY KEY,
    name       text NOT NULL,
    checksum   text NOT NULL,
    applied_us bigint NOT NULL
);
INSERT INTO interlock.migrations (version, name, checksum, applied_us)
VALUES ({version}, '{name}', '{checksum}', (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);
