-- The total of a run before a report, locked until the report is kept. A first report finds zeros. No row if the item is gone:
-- its row is locked, so that it is not deleted meanwhile.
INSERT INTO interlock.run_costs AS c (run, item, agent, micro_usd, input_tokens, output_tokens, reported_us)
SELECT %(run)s, id, %(agent)s, 0, 0, 0, coalesce(%(now_us)s, interlock.clock_us()) FROM interlock.items
WHERE id = %(item)s AND interlock.expect({schema})
FOR KEY SHARE
ON CONFLICT (run) DO UPDATE SET reported_us = excluded.reported_us
RETURNING micro_usd, input_tokens, output_tokens, reported_us,
    (SELECT project FROM interlock.items WHERE id = %(item)s), (SELECT pool FROM interlock.agents WHERE key = %(agent)s)
