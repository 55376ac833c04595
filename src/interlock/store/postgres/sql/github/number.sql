-- An issue or pull request as last read.
SELECT repository, number, revision, facts, wanted FROM interlock.github_numbers WHERE repository = %(repository)s AND number = %(number)s
