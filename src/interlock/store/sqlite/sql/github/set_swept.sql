-- Record that a sweep has read all changes in a repository up to a time.
UPDATE github_repositories SET swept_to = :swept_to WHERE id = :id AND swept_to < :swept_to
