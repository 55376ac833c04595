-- The end of the output of each run, so that it can be read on any machine.
-- Serves: 36

-- What is kept of a run's output. No column refers to `items`: only a current run writes, and an item with one is not deleted.
CREATE TABLE run_logs (
    run       INTEGER PRIMARY KEY,
    item      INTEGER NOT NULL,
    size      INTEGER NOT NULL,
    last_line TEXT NOT NULL,
    pieces    INTEGER NOT NULL,
    at_us     INTEGER NOT NULL
) STRICT;
CREATE INDEX run_logs_item ON run_logs (item);

-- The pieces of it, by where they begin.
CREATE TABLE run_log_pieces (
    run   INTEGER NOT NULL REFERENCES run_logs (run) ON DELETE CASCADE,
    start INTEGER NOT NULL,
    text  TEXT NOT NULL,
    PRIMARY KEY (run, start)
) STRICT;
