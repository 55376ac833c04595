-- Rename a repository. Its lanes keep their names.
UPDATE github_repositories SET name = :name WHERE id = :id AND name <> :name
