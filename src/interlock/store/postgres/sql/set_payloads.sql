-- Set payloads from an edit, whether or not they existed.
INSERT INTO interlock.payloads (item, payload) SELECT * FROM unnest(%s::bigint[], %s::text[])
ON CONFLICT (item) DO UPDATE SET payload = excluded.payload
