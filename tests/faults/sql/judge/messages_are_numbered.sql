-- Messages of an item are numbered 1 to n without a gap, and n is what its row says.
SELECT i.id, i.message_count, count(m.n), max(m.n) FROM items i LEFT JOIN messages m ON m.item = i.id
GROUP BY i.id, i.message_count HAVING i.message_count <> count(m.n) OR coalesce(max(m.n), 0) <> count(m.n)
