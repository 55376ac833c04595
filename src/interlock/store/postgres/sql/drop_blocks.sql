-- Items that have ended have no blocks of their own.
DELETE FROM interlock.blocks WHERE lane = '' AND item = ANY(%(items)s::bigint[])
