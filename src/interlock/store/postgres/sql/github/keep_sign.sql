-- Record that a run shows a reaction, or is about to.
INSERT INTO interlock.github_signs (run, item, repository, number, kind, subject, reaction)
SELECT %(run)s, %(item)s, %(repository)s, %(number)s, %(kind)s, %(subject)s, %(reaction)s::bigint WHERE interlock.expect({schema})
ON CONFLICT (run) DO UPDATE SET reaction = excluded.reaction
