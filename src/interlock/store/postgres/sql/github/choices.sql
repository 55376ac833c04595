-- The display options of a repository, by its rules.
SELECT comments, lane_status FROM interlock.github_choices WHERE repository = %(repository)s
