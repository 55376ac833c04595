-- Delete the own blocks of ended items.
DELETE FROM interlock.blocks WHERE lane = '' AND item = ANY(%(items)s::bigint[])
