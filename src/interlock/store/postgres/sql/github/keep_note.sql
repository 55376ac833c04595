-- Write a newer note of a series, unless one was written meanwhile.
INSERT INTO interlock.series_notes (lane, revision, data)
SELECT %(lane)s, %(revision)s, %(data)s WHERE interlock.expect({schema})
ON CONFLICT (lane) DO UPDATE SET revision = excluded.revision, data = excluded.data
WHERE series_notes.revision = excluded.revision - 1
RETURNING 1
