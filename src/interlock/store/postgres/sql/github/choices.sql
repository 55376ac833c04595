-- What the rules of a repository say that it is shown.
SELECT comments, lane_status FROM interlock.github_choices WHERE repository = %(repository)s
