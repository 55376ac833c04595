-- The latest time by the store's clock at which somebody wrote, beside the time now: a line of history, a renewal, an agent that
-- asked for work. A clock that shows less was set back. Lines from before the last correction may be dated by a clock that was ahead,
-- and so may agents that asked during it: for a thousand lines they do not count.
WITH newest AS MATERIALIZED (SELECT seq, at_us, kind FROM interlock.events ORDER BY seq DESC LIMIT 1000)
SELECT greatest(
    (SELECT max(at_us) FROM newest WHERE seq >= coalesce((SELECT max(seq) FROM newest WHERE kind = 'clock.stepped'), 0)),
    (SELECT max(lease_until_us - (run_lease_s * 1000000)::bigint) FROM interlock.items WHERE status = 'in_progress'),
    (SELECT max(seen_us) FROM interlock.agents WHERE NOT EXISTS (SELECT 1 FROM newest WHERE kind = 'clock.stepped'))
), interlock.clock_us(), (SELECT offset_us FROM interlock.clock)
