-- Messages of an item above a number, with the payload of their arrival.
SELECT m.item, m.n, m.text, m.author, m.origin, m.at_us, p.payload, m.sender, m.agent, m.reason, m.url, m.said
FROM (SELECT * FROM interlock.messages WHERE item = %(item)s AND n > %(after)s ORDER BY n LIMIT %(limit)s) AS m
LEFT JOIN interlock.payloads p ON p.item = m.origin AND m.origin <> m.item
ORDER BY m.ticket, m.n
