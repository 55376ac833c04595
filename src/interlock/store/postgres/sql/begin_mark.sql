-- Begin the notices of a name here, unless they have begun.
INSERT INTO interlock.marks (name, seq) SELECT %(name)s, %(seq)s WHERE interlock.expect({schema}) ON CONFLICT DO NOTHING
