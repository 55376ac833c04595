-- Build the derived data of a filled store: the gates of plans and the counts of items. Its clock starts no earlier than the given
-- time.
WITH clock AS (
    UPDATE interlock.clock SET offset_us = offset_us + greatest(0, %(at_us)s - interlock.clock_us())
),
gates AS (
    INSERT INTO interlock.gates (plan, open)
    SELECT id, status = 'running' AND cycle_us IS NULL AND paused_why IS NULL FROM interlock.plans
)
INSERT INTO interlock.tallies (status, priority, n) SELECT status, priority, count(*) FROM interlock.items GROUP BY status, priority
