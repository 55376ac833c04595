-- Lanes with a line whose owner waits for an agent that is unknown, unable or gone, with that owner and its agent. It skips from line
-- to line, through a bounded number of them.
WITH RECURSIVE lines(lane, n) AS (
    SELECT (SELECT i.lane FROM interlock.items i WHERE i.status = 'deferred' ORDER BY i.lane LIMIT 1), 1
    UNION ALL
    SELECT (SELECT i.lane FROM interlock.items i WHERE i.status = 'deferred' AND i.lane > l.lane ORDER BY i.lane LIMIT 1), l.n + 1
    FROM lines l WHERE l.lane IS NOT NULL AND l.n < %(lines)s
)
SELECT o.lane, o.id, o.agent_key
FROM lines l CROSS JOIN LATERAL (SELECT * FROM interlock.unstarted_owners s WHERE s.lane = l.lane LIMIT 1) AS o,
    (SELECT coalesce(%(now_us)s, interlock.clock_us()) AS now_us) AS clock
WHERE l.lane IS NOT NULL AND ((o.unable AND o.created_us + 60000000 <= clock.now_us) OR o.gone_us <= clock.now_us)
ORDER BY o.lane LIMIT %(limit)s
