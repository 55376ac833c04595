-- Link a run once to a pull request or a commit. Stronger evidence replaces a closing keyword.
INSERT INTO github_links (run, repository, number, commit_id, item, how, linked_us)
VALUES (:run, :repository, :number, :commit_id, :item, :how, :now_us)
ON CONFLICT (run, repository, number, commit_id) DO UPDATE SET how = excluded.how
WHERE github_links.how = 'closes' AND excluded.how <> 'closes'
RETURNING run
