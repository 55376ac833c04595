-- What a pull request closed is forgotten.
DELETE FROM interlock.github_closes WHERE repository = %(repository)s AND pull = %(pull)s
