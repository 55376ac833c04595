-- A message may be an outsider's: somebody who may speak, but not start work. SQLite changes no condition of a column, so the
-- messages move to a new table.
-- Serves: 19

CREATE TABLE newer_messages (
    item   INTEGER NOT NULL REFERENCES items (id),
    n      INTEGER NOT NULL CHECK (n > 0),
    ticket INTEGER NOT NULL,
    text   TEXT NOT NULL,
    author TEXT NOT NULL,
    origin INTEGER NOT NULL,
    at_us  INTEGER NOT NULL,
    sender TEXT NOT NULL DEFAULT 'person' CHECK (sender IN ('person', 'agent', 'bot', 'system', 'outsider')),
    agent  TEXT NOT NULL DEFAULT '' CHECK ((sender = 'agent') = (agent <> '')),
    PRIMARY KEY (item, n)
) STRICT, WITHOUT ROWID;

INSERT INTO newer_messages (item, n, ticket, text, author, origin, at_us, sender, agent)
SELECT item, n, ticket, text, author, origin, at_us, sender, agent FROM messages;
DROP TABLE messages;
ALTER TABLE newer_messages RENAME TO messages;
CREATE INDEX messages_origin ON messages (origin) WHERE origin <> item;
