-- An item has no payload any more.
DELETE FROM payloads WHERE item = ?
