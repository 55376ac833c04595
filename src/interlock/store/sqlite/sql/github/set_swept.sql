-- A sweep has read all that changed in a repository up to a time.
UPDATE github_repositories SET swept_to = :swept_to WHERE id = :id AND swept_to < :swept_to
