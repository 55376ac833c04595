-- Delete the payload of an item.
DELETE FROM payloads WHERE item = ?
