-- Payloads of the named items.
SELECT item, payload FROM interlock.payloads WHERE item = ANY(%(items)s::bigint[])
