-- The store knows this about itself from here on.
INSERT INTO interlock.meta (name, value) VALUES (%(name)s, %(value)s)
ON CONFLICT (name) DO UPDATE SET value = excluded.value
