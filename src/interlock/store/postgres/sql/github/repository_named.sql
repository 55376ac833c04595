-- The newest repository with a name.
SELECT id, name, lane_name, swept_to FROM interlock.github_repositories WHERE name = %(name)s ORDER BY id DESC LIMIT 1
