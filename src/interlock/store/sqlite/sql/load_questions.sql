-- The open questions of locked items whose live runs ask: the last that each has asked.
SELECT i.id, (SELECT e.data FROM events e WHERE e.item = i.id AND e.kind = 'question.asked' ORDER BY e.seq DESC LIMIT 1)
FROM items i WHERE i.id IN (SELECT value FROM json_each(:items)) AND i.status = 'in_progress' AND i.reason = 'asked'
