-- Series: what was noted about a series of issues beside its lane.
-- Serves: 27

-- What was seen and counted of a series, by its lane. It decides nothing about who has the lane.
CREATE TABLE series_notes (
    lane     TEXT PRIMARY KEY,
    revision INTEGER NOT NULL CHECK (revision > 0),
    data     TEXT NOT NULL
) STRICT, WITHOUT ROWID;
