-- Messages that arrived after the start of an item's last run.
SELECT m.item, m.n, m.ticket, m.sender, m.agent FROM items i JOIN messages m ON m.item = i.id AND m.n > i.delivered
WHERE i.id IN (SELECT value FROM json_each(:items)) ORDER BY m.item, m.n
