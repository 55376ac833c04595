-- Lanes with a line whose owner waits for an agent that is unknown, unable or gone, with that owner and its agent. It skips from line
-- to line, through a bounded number of them.
WITH RECURSIVE lines(lane, n) AS (
    SELECT (SELECT min(lane) FROM items WHERE status = 'deferred'), 1
    UNION ALL
    SELECT (SELECT min(i.lane) FROM items i WHERE i.status = 'deferred' AND i.lane > lines.lane), n + 1
    FROM lines WHERE lane IS NOT NULL AND n < :lines
)
SELECT o.lane, o.id, o.agent_key FROM lines CROSS JOIN unstarted_owners o ON o.lane = lines.lane
WHERE (o.unable AND o.created_us + 60000000 <= :now_us) OR o.gone_us <= :now_us
ORDER BY o.lane LIMIT :limit
