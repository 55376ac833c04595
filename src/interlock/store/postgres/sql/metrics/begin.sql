-- Begin counting here, unless it has begun.
INSERT INTO interlock.marks (name, seq) SELECT 'metrics', %(seq)s WHERE interlock.expect({schema}) ON CONFLICT DO NOTHING
