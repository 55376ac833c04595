-- One repository.
SELECT id, name, lane_name, swept_to FROM interlock.github_repositories WHERE id = %(id)s
