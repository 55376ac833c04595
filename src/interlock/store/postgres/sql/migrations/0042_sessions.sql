-- Sessions of people at the dashboard, and the one-time links that begin them.
-- Serves: 41

-- Sessions and links. Each has the scope of its token, and ends with it. Only a hash of each is here.
CREATE TABLE interlock.sessions (
    id         text COLLATE "C" PRIMARY KEY,
    token      text COLLATE "C" NOT NULL REFERENCES interlock.tokens (id),
    kind       text COLLATE "C" NOT NULL,
    hash       text NOT NULL,
    created_us bigint NOT NULL,
    expires_us bigint NOT NULL,
    CHECK (kind IN ('link', 'session')),
    CHECK (length(hash) = 64)
);
CREATE INDEX sessions_of_token ON interlock.sessions (token, kind, created_us, id);
CREATE INDEX sessions_expire ON interlock.sessions (expires_us);
