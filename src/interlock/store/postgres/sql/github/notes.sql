-- The notes of series, in order of their lanes.
SELECT lane, revision, data FROM interlock.series_notes WHERE lane > %(after)s ORDER BY lane LIMIT %(limit)s
