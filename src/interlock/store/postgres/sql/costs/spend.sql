-- Add to what an agent, a pool or a project used on a day.
INSERT INTO interlock.spending AS s (scope, name, day, micro_usd, input_tokens, output_tokens)
VALUES (%(scope)s, %(name)s, %(day)s, %(micro_usd)s, %(input_tokens)s, %(output_tokens)s)
ON CONFLICT (scope, name, day) DO UPDATE SET micro_usd = s.micro_usd + excluded.micro_usd,
    input_tokens = s.input_tokens + excluded.input_tokens, output_tokens = s.output_tokens + excluded.output_tokens
