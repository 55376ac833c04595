-- One repository.
SELECT id, name, lane_name, swept_to FROM github_repositories WHERE id = :id
