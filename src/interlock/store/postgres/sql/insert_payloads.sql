-- Payloads stay off the row that a claim touches.
INSERT INTO interlock.payloads (item, payload) SELECT * FROM unnest(%s::bigint[], %s::text[])
