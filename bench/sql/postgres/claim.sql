-- Starts the first ready items for anyone, in order, never waiting, and writes what Interlock's claim writes.
-- `ready` is the predicate of Interlock's own index, and `writing` the part of Interlock's own claim that writes.
WITH picked AS MATERIALIZED (
    SELECT id FROM interlock.items
    WHERE {ready} AND plan IS NULL AND agent_key = ''
    ORDER BY sort_key LIMIT %(batch)s FOR NO KEY UPDATE SKIP LOCKED
),
{writing}
SELECT id, run, run_bits, title, run_started_us FROM claimed;
