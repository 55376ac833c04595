-- Who is at work: workers say that they are there.
-- Serves: 20

-- Workers that were seen lately. A worker says every few seconds that it is there, and says goodbye when it ends.
CREATE TABLE interlock.workers (
    name       text COLLATE "C" PRIMARY KEY,
    host       text NOT NULL,
    pid        bigint NOT NULL,
    folder     text NOT NULL,
    agent      text COLLATE "C" NOT NULL,
    slots      integer NOT NULL,
    runs       integer NOT NULL,
    started_us bigint NOT NULL,
    seen_us    bigint NOT NULL
);
CREATE INDEX workers_seen ON interlock.workers (seen_us);
