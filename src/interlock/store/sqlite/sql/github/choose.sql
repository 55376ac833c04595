-- Set the display options of a repository.
INSERT INTO github_choices (repository, comments, lane_status) VALUES (:repository, :comments, :lane_status)
ON CONFLICT (repository) DO UPDATE SET comments = excluded.comments, lane_status = excluded.lane_status
