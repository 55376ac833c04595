-- Keep the new total of a run.
UPDATE run_costs SET micro_usd = :micro_usd, input_tokens = :input_tokens, output_tokens = :output_tokens
WHERE run = :run
