-- Items have no payload any more.
DELETE FROM interlock.payloads WHERE item = ANY(%s::bigint[])
