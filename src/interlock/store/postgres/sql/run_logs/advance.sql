-- Note that the item's current run has written up to a size, unless that is known. No row of the item is locked or written: the log is
-- the run's own. The answer is how many pieces came so far.
INSERT INTO interlock.run_logs (run, item, size, last_line, pieces, at_us)
SELECT run, id, %(size)s, %(last_line)s, 1, coalesce(%(now_us)s, interlock.clock_us()) FROM interlock.items
WHERE id = %(item)s AND run = %(run)s AND run_bits = %(bits)s AND interlock.expect({schema})
ON CONFLICT (run) DO UPDATE SET
    size = excluded.size, last_line = excluded.last_line, pieces = run_logs.pieces + 1, at_us = excluded.at_us
WHERE run_logs.size <= %(start)s
RETURNING pieces
