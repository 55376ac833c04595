-- The known repositories, in order.
SELECT id, name, lane_name, swept_to FROM github_repositories WHERE id > :after ORDER BY id LIMIT :limit
