-- Sessions of people at the dashboard, and the one-time links that begin them.
-- Serves: 36

-- Sessions and links. Each has the scope of its token, and ends with it. Only a hash of each is here.
CREATE TABLE sessions (
    id         TEXT PRIMARY KEY,
    token      TEXT NOT NULL REFERENCES tokens (id),
    kind       TEXT NOT NULL,
    hash       TEXT NOT NULL,
    created_us INTEGER NOT NULL,
    expires_us INTEGER NOT NULL,
    CHECK (kind IN ('link', 'session')),
    CHECK (length(hash) = 64)
) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_of_token ON sessions (token, kind, created_us, id);
CREATE INDEX sessions_expire ON sessions (expires_us);
