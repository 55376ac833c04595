-- Notices of a name begin here, unless they have begun.
INSERT INTO marks (name, seq) VALUES (:name, :seq) ON CONFLICT DO NOTHING
