-- What the runs of some items used, in order.
SELECT item, run, micro_usd, input_tokens, output_tokens FROM interlock.run_costs WHERE item = ANY(%(items)s::bigint[]) ORDER BY run
