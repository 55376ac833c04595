-- Add to what an agent, a pool or a project used on a day.
INSERT INTO spending AS s (scope, name, day, micro_usd, input_tokens, output_tokens)
VALUES (:scope, :name, :day, :micro_usd, :input_tokens, :output_tokens)
ON CONFLICT (scope, name, day) DO UPDATE SET micro_usd = s.micro_usd + excluded.micro_usd,
    input_tokens = s.input_tokens + excluded.input_tokens, output_tokens = s.output_tokens + excluded.output_tokens
