-- Budgets with what live runs hold back, and the spending of the last days: those of an agent, of a pool and of projects, or all. A
-- claim reads them after it has locked them.
SELECT b.scope, b.name, b.per, b.micro_usd, b.when_spent, coalesce(b.reserved, 0), :now_us,
    (SELECT c.time_zone FROM calendars c), (SELECT json_group_object(r.type, r.micro_usd) FROM reserves r),
    (SELECT json_group_object(s.day, s.micro_usd) FROM spending s WHERE s.scope = b.scope AND s.name = b.name
        AND s.day >= date(:now_us / 1000000, 'unixepoch', '-33 days'))
FROM budget_use b
WHERE :all OR b.scope = 'project' OR (b.scope = 'agent' AND b.name = :agent) OR (b.scope = 'pool' AND b.name = :pool)
ORDER BY b.scope, b.name, b.per LIMIT :limit
