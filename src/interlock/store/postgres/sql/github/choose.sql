-- Set the display options of a repository.
INSERT INTO interlock.github_choices (repository, comments, lane_status)
SELECT %(repository)s, %(comments)s::smallint, %(lane_status)s::smallint WHERE interlock.expect({schema})
ON CONFLICT (repository) DO UPDATE SET comments = excluded.comments, lane_status = excluded.lane_status
