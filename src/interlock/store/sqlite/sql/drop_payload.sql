-- An item loses its payload.
DELETE FROM payloads WHERE item = ?
