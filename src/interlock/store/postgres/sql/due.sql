-- Due items: the earliest first, then the oldest, so that tickets, not query plans, decide the order in which items enter a
-- lane. Each row ends with the clock and its offset. If nothing is due, there is one row without an item.
-- The three kinds of `deadlines`, each by its own index: the planner may sort all of their union.
WITH clock AS MATERIALIZED (
    SELECT coalesce(%(now_us)s, interlock.clock_us()) AS now_us, (SELECT offset_us FROM interlock.clock) AS offset_us
)
SELECT due.item, clock.now_us, clock.offset_us FROM clock LEFT JOIN (
    SELECT item, at_us FROM (
        (SELECT id AS item, due_us AS at_us FROM interlock.items WHERE due_us <= (SELECT now_us FROM clock)
        ORDER BY due_us, id LIMIT (SELECT %(limit)s::integer))
        UNION ALL
        (SELECT id, claim_by_us FROM interlock.items WHERE status = 'pending' AND claim_by_us <= (SELECT now_us FROM clock)
        ORDER BY claim_by_us LIMIT (SELECT %(limit)s::integer))
        UNION ALL
        (SELECT edit_item, deadline_us FROM interlock.plans WHERE deadline_us <= (SELECT now_us FROM clock)
        ORDER BY deadline_us LIMIT (SELECT %(limit)s::integer))
    ) AS each ORDER BY at_us, item LIMIT (SELECT %(limit)s::integer)
) AS due ON true
ORDER BY due.at_us, due.item
