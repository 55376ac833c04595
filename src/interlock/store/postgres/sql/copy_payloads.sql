-- A follow-up works on what its parent worked on.
INSERT INTO interlock.payloads (item, payload)
SELECT c.target, p.payload FROM unnest(%s::bigint[], %s::bigint[]) AS c(source, target)
JOIN interlock.payloads p ON p.item = c.source
