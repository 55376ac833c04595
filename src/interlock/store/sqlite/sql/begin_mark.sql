-- Begin the notices of a name here, unless they have begun.
INSERT INTO marks (name, seq) VALUES (:name, :seq) ON CONFLICT DO NOTHING
