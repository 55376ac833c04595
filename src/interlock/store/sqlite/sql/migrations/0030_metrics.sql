-- Counters of what happened, for monitoring: added up from the history, and never less than they were.
-- Serves: 27

-- The labels that numbers have. A bounded number of them; what comes later is counted as `other`.
CREATE TABLE metric_labels (
    id       INTEGER PRIMARY KEY,
    project  TEXT NOT NULL,
    type     TEXT NOT NULL,
    agent    TEXT NOT NULL,
    priority TEXT NOT NULL,
    UNIQUE (project, type, agent, priority)
) STRICT;

-- How often something happened. `value` tells cases of one metric apart; of a histogram it is a bound, or `sum_us`.
CREATE TABLE metric_counts (
    metric TEXT NOT NULL,
    value  TEXT NOT NULL,
    labels INTEGER NOT NULL REFERENCES metric_labels (id),
    n      INTEGER NOT NULL CHECK (n >= 0),
    PRIMARY KEY (metric, value, labels)
) STRICT, WITHOUT ROWID;
