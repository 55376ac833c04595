-- The items of live runs that count for one, the oldest run first.
SELECT i.id FROM interlock.items i LEFT JOIN interlock.agents a ON a.key = i.run_agent
WHERE i.status = 'in_progress' AND i.cancel_into IS NULL AND i.type <> 'hold'
    AND CASE %(scope)s::text WHEN 'agent' THEN i.run_agent = %(name)s WHEN 'pool' THEN a.pool = %(name)s ELSE i.project = %(name)s END
ORDER BY i.run LIMIT %(limit)s
