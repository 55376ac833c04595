-- Tokens, with which programs on other machines are let in; and requests that were answered, so that none is carried out twice.
-- Serves: 31

-- Tokens. Only a hash of each is here.
CREATE TABLE interlock.tokens (
    id         text COLLATE "C" PRIMARY KEY,
    name       text NOT NULL,
    scope      text NOT NULL,
    hash       text NOT NULL,
    created_us bigint NOT NULL,
    expires_us bigint,
    used_us    bigint,
    revoked_us bigint,
    CHECK (length(hash) = 64)
);
CREATE INDEX tokens_created ON interlock.tokens (created_us);
CREATE INDEX tokens_open ON interlock.tokens (expires_us) WHERE revoked_us IS NULL;

-- Requests that were carried out, with their answers; written in the transaction that carried them out.
CREATE TABLE interlock.requests (
    key    text COLLATE "C" PRIMARY KEY,
    asked  text NOT NULL,
    answer text NOT NULL,
    at_us  bigint NOT NULL
);
CREATE INDEX requests_at ON interlock.requests (at_us);
