-- Items that time alone moves now: the earliest first, then the oldest, so that tickets decide the order in which items enter
-- a lane, not the plan of a query.
SELECT item FROM interlock.deadlines WHERE at_us <= coalesce(%(now_us)s, (SELECT interlock.clock_us()))
ORDER BY at_us, item LIMIT (SELECT %(limit)s::integer)
