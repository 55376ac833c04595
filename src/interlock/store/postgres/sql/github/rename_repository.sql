-- Rename a repository. Its lanes keep their names.
UPDATE interlock.github_repositories SET name = %(name)s WHERE interlock.expect({schema}) AND id = %(id)s AND name <> %(name)s
