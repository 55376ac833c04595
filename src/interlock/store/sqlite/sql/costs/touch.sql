-- The total of a run before a report. A first report finds zeros. No row if the item is gone.
INSERT INTO run_costs AS c (run, item, agent, micro_usd, input_tokens, output_tokens, reported_us)
SELECT :run, id, :agent, 0, 0, 0, :now_us FROM items
WHERE id = :item
ON CONFLICT (run) DO UPDATE SET reported_us = excluded.reported_us
RETURNING micro_usd, input_tokens, output_tokens, reported_us,
    (SELECT project FROM items WHERE id = :item), (SELECT pool FROM agents WHERE key = :agent)
