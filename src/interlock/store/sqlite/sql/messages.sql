-- Messages of an item above a number, with the payload of their arrival.
SELECT m.item, m.n, m.text, m.author, m.origin, m.at_us, p.payload, m.sender, m.agent, m.reason, m.url, m.said
FROM (SELECT * FROM messages WHERE item = :item AND n > :after ORDER BY n LIMIT :limit) AS m
LEFT JOIN payloads p ON p.item = m.origin AND m.origin <> m.item
ORDER BY m.ticket, m.n
