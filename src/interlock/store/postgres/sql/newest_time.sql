-- The latest time in the store, of an event, a renewal or an agent's claim, and the current time. A clock that shows less was set
-- back. Events from before the last correction may have the time of a clock that was ahead, and so may agents' claims during it:
-- for a thousand events they do not count.
WITH newest AS MATERIALIZED (SELECT seq, at_us, kind FROM interlock.events ORDER BY seq DESC LIMIT 1000)
SELECT greatest(
    (SELECT max(at_us) FROM newest WHERE seq >= coalesce((SELECT max(seq) FROM newest WHERE kind = 'clock.stepped'), 0)),
    (SELECT max(lease_until_us - (run_lease_s * 1000000)::bigint) FROM interlock.items WHERE status = 'in_progress'),
    (SELECT max(seen_us) FROM interlock.agents WHERE NOT EXISTS (SELECT 1 FROM newest WHERE kind = 'clock.stepped'))
), interlock.clock_us(), (SELECT offset_us FROM interlock.clock)
