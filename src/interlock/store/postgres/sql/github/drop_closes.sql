-- Delete the issues that a pull request closes.
DELETE FROM interlock.github_closes WHERE repository = %(repository)s AND pull = %(pull)s
