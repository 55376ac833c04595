
-- What was applied, with the checksum of its text; and, once, the secret that makes handles unguessable.
CREATE TABLE IF NOT EXISTS interlock.migrations (
    version    integer PRIMARY KEY,
    name       text NOT NULL,
    checksum   text NOT NULL,
    applied_us bigint NOT NULL
);
INSERT INTO interlock.meta (name, value)
VALUES ('handle_key', replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', '')) ON CONFLICT DO NOTHING;
INSERT INTO interlock.migrations (version, name, checksum, applied_us)
VALUES ({version}, '{name}', '{checksum}', interlock.now_us());
