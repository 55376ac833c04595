-- Unique item ids. Allocated outside the transaction, so a repeated attempt keeps them.
SELECT nextval('interlock.item_ids') FROM generate_series(1, (SELECT %(count)s::integer)) WHERE interlock.expect({schema})
