-- Add payloads, separate from the row that a claim writes.
INSERT INTO interlock.payloads (item, payload) SELECT * FROM unnest(%s::bigint[], %s::text[])
