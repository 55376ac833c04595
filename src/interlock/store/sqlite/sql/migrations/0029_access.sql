-- Tokens, with which programs on other machines are let in; and requests that were answered, so that none is carried out twice.
-- Serves: 27

-- Tokens. Only a hash of each is here.
CREATE TABLE tokens (
    id         TEXT PRIMARY KEY,
    name       TEXT NOT NULL,
    scope      TEXT NOT NULL,
    hash       TEXT NOT NULL,
    created_us INTEGER NOT NULL,
    expires_us INTEGER,
    used_us    INTEGER,
    revoked_us INTEGER,
    CHECK (length(hash) = 64)
) STRICT, WITHOUT ROWID;
CREATE INDEX tokens_created ON tokens (created_us);
CREATE INDEX tokens_open ON tokens (expires_us) WHERE revoked_us IS NULL;

-- Requests that were carried out, with their answers; written in the transaction that carried them out.
CREATE TABLE requests (
    key    TEXT PRIMARY KEY,
    asked  TEXT NOT NULL,
    answer TEXT NOT NULL,
    at_us  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX requests_at ON requests (at_us);
