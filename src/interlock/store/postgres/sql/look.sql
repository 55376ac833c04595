-- The rows of `load_items` for one item and its lane, read without a lock, to predict a transaction's decision.
-- Each row ends with the messages that the last run did not get at its start, up to a limit, and with the lane's stored data: its
-- wake-ups in a row, the agent of its last run, its gate and whether it is blocked.
WITH named AS MATERIALIZED (
    SELECT id, coalesce(lane, observed_lane) AS lane, absorbed_by FROM interlock.items WHERE id = %(item)s
),
wanted AS MATERIALIZED (
    SELECT id FROM named
    UNION
    SELECT absorbed_by FROM named WHERE absorbed_by IS NOT NULL
    UNION
    SELECT id FROM interlock.items
    WHERE lane = (SELECT lane FROM named) AND status IN ('pending', 'in_progress') AND lane IS NOT NULL
    UNION
    SELECT id FROM interlock.items
    WHERE observed_lane = (SELECT lane FROM named) AND status IN ('pending', 'in_progress') AND observed_lane IS NOT NULL
    UNION
    (SELECT i.id FROM interlock.items i WHERE i.lane = (SELECT lane FROM named) AND i.status = 'deferred'
    ORDER BY i.front DESC, i.position, i.ticket, i.id LIMIT 1)
    UNION
    SELECT id FROM interlock.items
    WHERE lane = (SELECT lane FROM named) AND status IN ('deferred', 'waiting') AND policy IN ('supersede', 'latest')
        AND (status = 'deferred' OR first_claimed_us IS NOT NULL OR reason = 'loop')
    UNION
    SELECT id FROM interlock.items WHERE lane = (SELECT lane FROM named) AND NOT gated AND status = 'waiting' AND reason = 'loop'
)
SELECT i.*, CASE WHEN message_count > delivered THEN (
        SELECT array_agg(ARRAY[m.n::text, m.ticket::text, m.sender, m.agent] ORDER BY m.n) FROM interlock.messages m
        WHERE m.item = i.id AND m.n > i.delivered AND m.n <= i.delivered + %(limit)s) END, l.lane, l.streak, l.streak_run, l.last_agent,
    l.gate_series, l.gate_open, l.gate_exempt, l.gate_us, l.blocked
FROM interlock.items i LEFT JOIN interlock.lanes l ON l.lane = (SELECT lane FROM named)
WHERE i.id = ANY(ARRAY(SELECT id FROM wanted)) ORDER BY i.id
