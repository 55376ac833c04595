-- Delete payloads of items.
DELETE FROM interlock.payloads WHERE item = ANY(%s::bigint[])
