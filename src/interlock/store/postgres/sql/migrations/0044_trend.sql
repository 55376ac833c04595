-- The last hours in samples of a minute each, for the dashboard.
-- Serves: 41

-- The numbers at one minute. `arrivals` and the columns after it count from the beginning of counting.
CREATE TABLE interlock.trend (
    minute      bigint PRIMARY KEY,
    ready       bigint NOT NULL,
    waiting     bigint NOT NULL,
    running     bigint NOT NULL,
    oldest_us   bigint NOT NULL,
    arrivals    bigint NOT NULL,
    claims      bigint NOT NULL,
    completions bigint NOT NULL,
    failures    bigint NOT NULL
);
