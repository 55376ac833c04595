-- The messages of locked items that the last run did not get at its start, in order.
SELECT i.id, array_agg(ARRAY[m.n::text, m.ticket::text, m.sender, m.agent] ORDER BY m.n)
FROM interlock.items i JOIN interlock.messages m ON m.item = i.id AND m.n > i.delivered
WHERE i.id = ANY((SELECT %(items)s::bigint[])::bigint[])
GROUP BY i.id
