-- What runs used that reported since a time, of the newest reports up to a limit.
SELECT coalesce(sum(micro_usd), 0), coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0) FROM (
    SELECT micro_usd, input_tokens, output_tokens FROM run_costs WHERE reported_us >= :since_us
    ORDER BY reported_us DESC LIMIT :limit
) AS newest
