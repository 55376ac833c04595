-- Record that a run shows a reaction, or is about to.
INSERT INTO github_signs (run, item, repository, number, kind, subject, reaction)
VALUES (:run, :item, :repository, :number, :kind, :subject, :reaction)
ON CONFLICT (run) DO UPDATE SET reaction = excluded.reaction
