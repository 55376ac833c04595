-- Whether an event, a renewal or an agent's claim was written between these two times by the store's clock, which then has passed
-- them.
SELECT EXISTS (
    SELECT FROM (SELECT at_us FROM interlock.events ORDER BY seq DESC LIMIT 20000) AS newest
    WHERE at_us BETWEEN %(since_us)s AND %(until_us)s
) OR EXISTS (
    SELECT FROM interlock.items WHERE status = 'in_progress'
        AND lease_until_us - (run_lease_s * 1000000)::bigint BETWEEN %(since_us)s AND %(until_us)s
) OR EXISTS (
    SELECT FROM interlock.agents WHERE seen_us BETWEEN %(since_us)s AND %(until_us)s
)
