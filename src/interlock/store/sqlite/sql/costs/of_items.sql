-- What the runs of some items used, in order.
SELECT item, run, micro_usd, input_tokens, output_tokens FROM run_costs WHERE item IN (SELECT value FROM json_each(:items)) ORDER BY run
