-- The newest repository with a name.
SELECT id, name, lane_name, swept_to FROM github_repositories WHERE name = :name ORDER BY id DESC LIMIT 1
