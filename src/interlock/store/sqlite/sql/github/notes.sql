-- The notes of series, in order of their lanes.
SELECT lane, revision, data FROM series_notes WHERE lane > :after ORDER BY lane LIMIT :limit
