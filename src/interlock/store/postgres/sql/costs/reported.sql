-- What runs used that reported since a time, of the newest reports up to a limit.
SELECT coalesce(sum(micro_usd), 0)::bigint, coalesce(sum(input_tokens), 0)::bigint, coalesce(sum(output_tokens), 0)::bigint FROM (
    SELECT micro_usd, input_tokens, output_tokens FROM interlock.run_costs WHERE reported_us >= %(since_us)s
    ORDER BY reported_us DESC LIMIT %(limit)s
) AS newest
