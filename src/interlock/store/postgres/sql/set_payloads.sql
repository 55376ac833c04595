-- Payloads are what an edit says, whatever they were.
INSERT INTO interlock.payloads (item, payload) SELECT * FROM unnest(%s::bigint[], %s::text[])
ON CONFLICT (item) DO UPDATE SET payload = excluded.payload
