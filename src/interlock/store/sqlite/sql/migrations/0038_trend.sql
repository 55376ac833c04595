-- The last hours in samples of a minute each, for the dashboard.
-- Serves: 36

-- The numbers at one minute. `arrivals` and the columns after it count from the beginning of counting.
CREATE TABLE trend (
    minute      INTEGER PRIMARY KEY,
    ready       INTEGER NOT NULL,
    waiting     INTEGER NOT NULL,
    running     INTEGER NOT NULL,
    oldest_us   INTEGER NOT NULL,
    arrivals    INTEGER NOT NULL,
    claims      INTEGER NOT NULL,
    completions INTEGER NOT NULL,
    failures    INTEGER NOT NULL
) STRICT;
