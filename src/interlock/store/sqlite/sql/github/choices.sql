-- What the rules of a repository say that it is shown.
SELECT comments, lane_status FROM github_choices WHERE repository = :repository
