-- The numbers of live runs by kind, counted up to a limit, and the start of the oldest of each kind.
SELECT project, type, run_agent, priority, count(*), min(run_started_us) FROM (
    SELECT project, type, run_agent, priority, run_started_us FROM interlock.items
    WHERE status = 'in_progress' ORDER BY run_agent LIMIT (SELECT %(limit)s::integer)
) AS running
GROUP BY project, type, run_agent, priority
