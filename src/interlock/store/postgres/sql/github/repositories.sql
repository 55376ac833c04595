-- The known repositories, in order.
SELECT id, name, lane_name, swept_to FROM interlock.github_repositories WHERE id > %(after)s ORDER BY id LIMIT %(limit)s
