-- Copy the payload of a follow-up's parent.
INSERT INTO interlock.payloads (item, payload)
SELECT c.target, p.payload FROM unnest(%s::bigint[], %s::bigint[]) AS c(source, target)
JOIN interlock.payloads p ON p.item = c.source
