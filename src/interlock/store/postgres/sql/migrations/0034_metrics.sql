-- Counters of what happened, for monitoring: added up from the history, and never less than they were.
-- Serves: 31

-- The labels that numbers have. A bounded number of them; what comes later is counted as `other`.
CREATE TABLE interlock.metric_labels (
    id       integer PRIMARY KEY,
    project  text COLLATE "C" NOT NULL,
    type     text COLLATE "C" NOT NULL,
    agent    text COLLATE "C" NOT NULL,
    priority text COLLATE "C" NOT NULL,
    UNIQUE (project, type, agent, priority)
);

-- How often something happened. `value` tells cases of one metric apart; of a histogram it is a bound, or `sum_us`.
CREATE TABLE interlock.metric_counts (
    metric text COLLATE "C" NOT NULL,
    value  text COLLATE "C" NOT NULL,
    labels integer NOT NULL REFERENCES interlock.metric_labels (id),
    n      bigint NOT NULL CHECK (n >= 0),
    PRIMARY KEY (metric, value, labels)
);
