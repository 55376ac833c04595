-- Series: what was noted about a series of issues beside its lane.
-- Serves: 31

-- What was seen and counted of a series, by its lane. It decides nothing about who has the lane.
CREATE TABLE interlock.series_notes (
    lane     text COLLATE "C" PRIMARY KEY,
    revision bigint NOT NULL CHECK (revision > 0),
    data     text NOT NULL
);
