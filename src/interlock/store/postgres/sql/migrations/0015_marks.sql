-- How far users' commands were told of events, and who tells them now.
-- Serves: 14

-- For each notice, by its setting: the last event that was dealt with, who has it leased until when, and how often the next one was
-- tried. `until_us` without a token is the wait after a failed try.
CREATE TABLE interlock.marks (
    name     text COLLATE "C" PRIMARY KEY,
    seq      bigint NOT NULL,
    token    bigint,
    until_us bigint NOT NULL DEFAULT 0,
    tries    integer NOT NULL DEFAULT 0 CHECK (tries >= 0)
);
