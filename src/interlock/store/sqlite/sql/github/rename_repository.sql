-- A repository has another name; its lanes keep theirs.
UPDATE github_repositories SET name = :name WHERE id = :id AND name <> :name
