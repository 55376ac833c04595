-- Begin counting here, unless it has begun.
INSERT INTO marks (name, seq) VALUES ('metrics', :seq) ON CONFLICT DO NOTHING
