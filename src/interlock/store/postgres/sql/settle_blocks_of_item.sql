-- An item that has not ended has its flag exactly while it has a block of its own. Without it, its time to be claimed begins anew.
UPDATE interlock.items AS i SET blocked = NOT blocked,
    claim_by_us = CASE WHEN blocked AND claim_by_us IS NOT NULL
        THEN coalesce(%(now_us)s, interlock.clock_us()) + (claim_within_s * 1000000)::bigint ELSE claim_by_us END
WHERE id = %(item)s AND ended_us IS NULL AND blocked <> EXISTS (SELECT FROM interlock.blocks b WHERE b.lane = '' AND b.item = i.id)
