-- A repository has another name; its lanes keep theirs.
UPDATE interlock.github_repositories SET name = %(name)s WHERE interlock.expect({schema}) AND id = %(id)s AND name <> %(name)s
