-- The items of live runs that count for one, the oldest run first.
SELECT i.id FROM items i INDEXED BY items_running LEFT JOIN agents a ON a.key = i.run_agent
WHERE i.run IS NOT NULL AND i.cancel_into IS NULL AND i.type <> 'hold'
    AND CASE :scope WHEN 'agent' THEN i.run_agent = :name WHEN 'pool' THEN a.pool = :name ELSE i.project = :name END
ORDER BY i.run LIMIT :limit
