-- The display options of a repository, by its rules.
SELECT comments, lane_status FROM github_choices WHERE repository = :repository
