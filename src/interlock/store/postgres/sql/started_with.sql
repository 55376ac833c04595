-- What the transaction that ended an item's run started for an agent, if its answer was lost: the running items that it wrote last.
SELECT (SELECT p.payload FROM interlock.payloads p WHERE p.item = i.id), i.*
FROM interlock.items i
WHERE i.status = 'in_progress' AND i.run_agent = %(agent)s AND i.xmin = (SELECT xmin FROM interlock.items WHERE id = %(ended)s)
ORDER BY i.sort_key, i.id
