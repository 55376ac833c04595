-- The end of the output of each run, so that it can be read on any machine.
-- Serves: 41

-- What is kept of a run's output. No column refers to `items`: only a current run writes, and an item with one is not deleted.
CREATE TABLE interlock.run_logs (
    run       bigint PRIMARY KEY,
    item      bigint NOT NULL,
    size      bigint NOT NULL,
    last_line text NOT NULL,
    pieces    bigint NOT NULL,
    at_us     bigint NOT NULL
);
CREATE INDEX run_logs_item ON interlock.run_logs (item);

-- The pieces of it, by where they begin.
CREATE TABLE interlock.run_log_pieces (
    run   bigint NOT NULL REFERENCES interlock.run_logs (run) ON DELETE CASCADE,
    start bigint NOT NULL,
    text  text NOT NULL,
    PRIMARY KEY (run, start)
);
