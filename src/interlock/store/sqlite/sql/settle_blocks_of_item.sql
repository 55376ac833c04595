-- Set the flag of an unfinished item exactly while it has its own block. When the flag is cleared, its time limit for a claim restarts.
UPDATE items SET blocked = NOT blocked,
    claim_by_us = iif(blocked AND claim_by_us IS NOT NULL, :now_us + CAST(round(claim_within_s * 1000000) AS INTEGER), claim_by_us)
WHERE id = :item AND ended_us IS NULL AND blocked <> EXISTS (SELECT 1 FROM blocks b WHERE b.lane = '' AND b.item = items.id)
