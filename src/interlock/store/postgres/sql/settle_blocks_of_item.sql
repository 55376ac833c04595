-- Set the flag of an unfinished item exactly while it has its own block. When the flag is cleared, its time limit for a claim restarts.
UPDATE interlock.items AS i SET blocked = NOT blocked,
    claim_by_us = CASE WHEN blocked AND claim_by_us IS NOT NULL
        THEN coalesce(%(now_us)s, interlock.clock_us()) + (claim_within_s * 1000000)::bigint ELSE claim_by_us END
WHERE id = %(item)s AND ended_us IS NULL AND blocked <> EXISTS (SELECT FROM interlock.blocks b WHERE b.lane = '' AND b.item = i.id)
