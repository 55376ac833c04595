-- Items that time alone moves now. The earliest first, of one moment the oldest first, so that tickets decide who enters a
-- lane before whom, not the plan of a query.
SELECT item FROM interlock.deadlines WHERE at_us <= coalesce(%(now_us)s, (SELECT interlock.now_us()))
ORDER BY at_us, item LIMIT (SELECT %(limit)s::integer)
