-- What was noted about a series.
SELECT lane, revision, data FROM series_notes WHERE lane = :lane
