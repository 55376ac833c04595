-- Messages that came after the last run of an item had started.
SELECT m.item, m.n, m.ticket, m.sender, m.agent FROM items i JOIN messages m ON m.item = i.id AND m.n > i.delivered
WHERE i.id IN (SELECT value FROM json_each(:items)) ORDER BY m.item, m.n
