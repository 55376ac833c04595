-- Budgets with what live runs hold back, and the spending of the last days: those of an agent, of a pool and of projects, or all. A
-- claim reads them after it has locked them.
SELECT b.scope, b.name, b.per, b.micro_usd, b.when_spent, coalesce(b.reserved, 0)::bigint, clock.now_us,
    (SELECT c.time_zone FROM interlock.calendars c), (SELECT json_object_agg(r.type, r.micro_usd)::text FROM interlock.reserves r),
    (SELECT json_object_agg(s.day, s.micro_usd)::text FROM interlock.spending s WHERE s.scope = b.scope AND s.name = b.name
        AND s.day >= to_char(timestamp '1970-01-01' + make_interval(days => (clock.now_us / 86400000000)::integer - 33), 'YYYY-MM-DD') COLLATE "C")
FROM interlock.budget_use b CROSS JOIN (SELECT coalesce(%(now_us)s, interlock.clock_us()) AS now_us) AS clock
WHERE %(all)s OR b.scope = 'project' OR (b.scope = 'agent' AND b.name = %(agent)s) OR (b.scope = 'pool' AND b.name = %(pool)s)
ORDER BY b.scope, b.name, b.per LIMIT %(limit)s
