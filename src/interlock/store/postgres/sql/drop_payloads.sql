-- Items lose their payload.
DELETE FROM interlock.payloads WHERE item = ANY(%s::bigint[])
