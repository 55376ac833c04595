-- Note that the item's current run has written up to :size, unless that is known. No row of the item is locked or written: the log is
-- the run's own. The answer is how many pieces came so far.
INSERT INTO run_logs (run, item, size, last_line, pieces, at_us)
SELECT run, id, :size, :last_line, 1, :now_us FROM items WHERE id = :item AND run = :run AND run_bits = :bits
ON CONFLICT (run) DO UPDATE SET
    size = excluded.size, last_line = excluded.last_line, pieces = run_logs.pieces + 1, at_us = excluded.at_us
WHERE run_logs.size <= :start
RETURNING pieces
