-- What agents, pools and projects used on the days from one on, the newest day first.
SELECT scope, name, day, micro_usd, input_tokens, output_tokens FROM spending WHERE day >= :since
ORDER BY day DESC, scope, name LIMIT :limit
