-- How far users' commands were told of events, and who tells them now.
-- Serves: 11

-- For each notice, by its setting: the last event that was dealt with, who has it leased until when, and how often the next one was
-- tried. `until_us` without a token is the wait after a failed try.
CREATE TABLE marks (
    name     TEXT PRIMARY KEY,
    seq      INTEGER NOT NULL,
    token    INTEGER,
    until_us INTEGER NOT NULL DEFAULT 0,
    tries    INTEGER NOT NULL DEFAULT 0 CHECK (tries >= 0)
) STRICT, WITHOUT ROWID;
