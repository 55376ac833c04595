-- Messages that the last run of an item was not given when it started.
SELECT m.item, m.n, m.ticket FROM interlock.items i JOIN interlock.messages m ON m.item = i.id AND m.n > i.delivered
WHERE i.id = ANY(%(items)s::bigint[]) ORDER BY m.item, m.n
