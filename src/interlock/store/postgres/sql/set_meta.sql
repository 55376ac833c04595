-- Set a value of the store about itself.
INSERT INTO interlock.meta (name, value) VALUES (%(name)s, %(value)s)
ON CONFLICT (name) DO UPDATE SET value = excluded.value
