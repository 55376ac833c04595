-- Payloads of the named items.
SELECT item, payload FROM payloads WHERE item IN (SELECT value FROM json_each(:items))
