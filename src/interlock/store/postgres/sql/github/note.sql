-- What was noted about a series.
SELECT lane, revision, data FROM interlock.series_notes WHERE lane = %(lane)s
