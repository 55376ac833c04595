-- A follow-up has a message that our own bot did not write.
SELECT i.id FROM items i JOIN messages m ON m.item = i.id
WHERE i.title LIKE 'Follow-up: %' GROUP BY i.id HAVING bool_and(m.sender = 'bot')
