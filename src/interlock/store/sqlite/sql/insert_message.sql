-- Add a message, numbered within its item.
INSERT INTO messages (item, n, ticket, text, author, origin, at_us, sender, agent, reason, url, said)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
