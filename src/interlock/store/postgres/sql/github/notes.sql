-- What was noted about series, in the order of their lanes.
SELECT lane, revision, data FROM interlock.series_notes WHERE lane > %(after)s ORDER BY lane LIMIT %(limit)s
