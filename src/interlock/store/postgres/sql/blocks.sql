-- Blocks, the oldest first.
SELECT lane, item, blocker, why, url, at_us FROM interlock.blocks ORDER BY at_us, lane, item, blocker LIMIT %(limit)s
