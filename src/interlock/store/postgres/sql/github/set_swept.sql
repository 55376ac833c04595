-- Record that a sweep has read all changes in a repository up to a time.
UPDATE interlock.github_repositories SET swept_to = %(swept_to)s WHERE interlock.expect({schema}) AND id = %(id)s AND swept_to < %(swept_to)s
