-- The latest time by the store's clock at which somebody wrote, beside the time now: a line of history, a renewal, an agent that
-- asked for work. A clock that shows less was set back.
SELECT greatest(
    (SELECT max(at_us) FROM (SELECT at_us FROM interlock.events ORDER BY seq DESC LIMIT 1000) AS newest),
    (SELECT max(lease_until_us - (run_lease_s * 1000000)::bigint) FROM interlock.items WHERE status = 'in_progress'),
    (SELECT max(seen_us) FROM interlock.agents)
), interlock.clock_us(), (SELECT offset_us FROM interlock.clock)
