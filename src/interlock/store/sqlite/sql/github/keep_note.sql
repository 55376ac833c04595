-- Write a newer note of a series, unless one was written meanwhile.
INSERT INTO series_notes (lane, revision, data) VALUES (:lane, :revision, :data)
ON CONFLICT (lane) DO UPDATE SET revision = excluded.revision, data = excluded.data
WHERE series_notes.revision = excluded.revision - 1
RETURNING 1
