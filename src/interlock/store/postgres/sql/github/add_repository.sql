-- Add a repository with the name of its lanes: its own name, or with its number if another repository already had that.
INSERT INTO interlock.github_repositories (id, name, lane_name)
SELECT %(id)s, %(name)s, CASE WHEN EXISTS (SELECT 1 FROM interlock.github_repositories WHERE lane_name = %(lane_name)s) THEN %(other)s ELSE %(lane_name)s END
WHERE interlock.expect({schema}) ON CONFLICT DO NOTHING
