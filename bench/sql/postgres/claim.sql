-- Starts the first ready items of one queue, in order, never waiting, and writes what Interlock's claim writes.
-- `queue` names the queue by all columns of Interlock's own view, and `writing` is the part of Interlock's own claim that writes.
WITH picked AS MATERIALIZED (
    SELECT id FROM interlock.queued WHERE {queue}
    ORDER BY sort_key LIMIT %(batch)s FOR NO KEY UPDATE SKIP LOCKED
),
{writing}
SELECT id, run, run_bits, title, run_started_us FROM claimed;
