-- The first ready items for anyone, in order. `ready` is the predicate of Interlock's own index.
SELECT id AS item, row_number() OVER (ORDER BY sort_key) - 1 AS nth
FROM (SELECT id, sort_key FROM items WHERE {ready} AND plan IS NULL AND agent_key = '' ORDER BY sort_key LIMIT :batch)
