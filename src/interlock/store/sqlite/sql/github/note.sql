-- The note of a series.
SELECT lane, revision, data FROM series_notes WHERE lane = :lane
