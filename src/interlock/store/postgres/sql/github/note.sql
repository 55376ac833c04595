-- The note of a series.
SELECT lane, revision, data FROM interlock.series_notes WHERE lane = %(lane)s
