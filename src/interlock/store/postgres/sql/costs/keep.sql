-- Keep the new total of a run.
UPDATE interlock.run_costs SET micro_usd = %(micro_usd)s, input_tokens = %(input_tokens)s, output_tokens = %(output_tokens)s
WHERE run = %(run)s
