-- The store's clock counts from here on.
INSERT INTO meta (name, value) VALUES ('clock_anchor', :value)
ON CONFLICT (name) DO UPDATE SET value = excluded.value
