-- Who is at work: workers say that they are there.
-- Serves: 16

-- Workers that were seen lately. A worker says every few seconds that it is there, and says goodbye when it ends.
CREATE TABLE workers (
    name       TEXT PRIMARY KEY,
    host       TEXT NOT NULL,
    pid        INTEGER NOT NULL,
    folder     TEXT NOT NULL,
    agent      TEXT NOT NULL,
    slots      INTEGER NOT NULL,
    runs       INTEGER NOT NULL,
    started_us INTEGER NOT NULL,
    seen_us    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX workers_seen ON workers (seen_us);
