-- Lock all items that a transaction may decide on, in order of id. These are the named items and their replacements. For each lane,
-- they are its active items, the first of its line, one for each command, and items that an arrival may replace or a person restart.
-- For each name that arrives on a lane, they are the oldest deferred and the oldest parked item, which may absorb it. The lanes are
-- the given ones and those of the named items; `with_tasks` means that the given ones are all.
-- Each row ends with the messages that the last run did not get at its start, and with the clock and the number of the first event,
-- both after the wait. If there is no item, there is one row without an item.
-- Without `with_tasks`, nothing is locked if a named item is a task: its plan must be read first.
WITH named AS MATERIALIZED (
    SELECT id, coalesce(lane, observed_lane) AS lane, plan, absorbed_by FROM interlock.items
    WHERE id = ANY((SELECT %(items)s::bigint[])::bigint[])
),
lanes AS MATERIALIZED (
    SELECT lane, count(*) AS commands FROM (
        SELECT unnest((SELECT %(lanes)s::text[])) AS lane
        UNION ALL SELECT lane FROM named WHERE lane IS NOT NULL AND NOT %(with_tasks)s) AS each
    GROUP BY lane
),
wanted AS MATERIALIZED (
    SELECT id FROM named
    UNION
    SELECT absorbed_by FROM named WHERE absorbed_by IS NOT NULL
    UNION
    SELECT id FROM interlock.items
    WHERE lane = ANY(ARRAY(SELECT lane FROM lanes)) AND status IN ('pending', 'in_progress') AND lane IS NOT NULL
    UNION
    SELECT id FROM interlock.items
    WHERE observed_lane = ANY(ARRAY(SELECT lane FROM lanes)) AND status IN ('pending', 'in_progress') AND observed_lane IS NOT NULL
    UNION
    SELECT d.id FROM lanes l CROSS JOIN LATERAL (
        SELECT i.id FROM interlock.items i WHERE i.lane = l.lane AND i.status = 'deferred'
        ORDER BY i.front DESC, i.position, i.ticket, i.id LIMIT l.commands * %(heads)s) AS d
    UNION
    SELECT id FROM interlock.items
    WHERE lane = ANY(ARRAY(SELECT lane FROM lanes)) AND status IN ('deferred', 'waiting') AND policy IN ('supersede', 'latest')
        AND (status = 'deferred' OR first_claimed_us IS NOT NULL OR reason = 'loop')
    UNION
    SELECT first.id FROM unnest((SELECT %(name_lanes)s::text[]), (SELECT %(name_keys)s::text[])) AS name(lane, agent) CROSS JOIN LATERAL (
        (SELECT i.id FROM interlock.items i WHERE i.agent_key = name.agent AND i.lane = name.lane AND i.status = 'deferred'
            AND NOT (i.type = 'hold' AND 'hold' = ANY(i.labels)) ORDER BY i.position, i.ticket, i.id LIMIT 1)
        UNION ALL
        (SELECT i.id FROM interlock.items i WHERE i.agent_key = name.agent AND i.lane = name.lane AND i.status = 'waiting'
            AND i.first_claimed_us IS NOT NULL AND i.due_us IS NOT NULL ORDER BY i.position, i.ticket, i.id LIMIT 1)
    ) AS first
    UNION
    SELECT id FROM interlock.items WHERE lane = ANY(ARRAY(SELECT lane FROM lanes)) AND NOT gated AND status = 'waiting' AND reason = 'loop'
),
locked AS MATERIALIZED (
    SELECT * FROM interlock.items WHERE id = ANY(ARRAY(SELECT id FROM wanted))
        AND (%(with_tasks)s OR NOT EXISTS (SELECT FROM named WHERE plan IS NOT NULL))
    ORDER BY id FOR NO KEY UPDATE
),
clock AS MATERIALIZED (
    SELECT interlock.clock_us() AS now_us, (SELECT offset_us FROM interlock.clock) AS offset_us, interlock.next_seq() AS seq
    FROM (SELECT count(*) FROM locked) AS waited
)
SELECT locked.*, CASE WHEN message_count > delivered THEN (
        SELECT array_agg(ARRAY[m.n::text, m.ticket::text, m.sender, m.agent] ORDER BY m.n) FROM interlock.messages m
        WHERE m.item = locked.id AND m.n > locked.delivered) END, clock.now_us, clock.offset_us, clock.seq
FROM clock LEFT JOIN locked ON true
