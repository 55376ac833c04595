-- Add a repository with the name of its lanes: its own name, or with its number if another repository already had that.
INSERT INTO github_repositories (id, name, lane_name)
SELECT :id, :name, CASE WHEN EXISTS (SELECT 1 FROM github_repositories WHERE lane_name = :lane_name) THEN :other ELSE :lane_name END
WHERE true ON CONFLICT DO NOTHING
