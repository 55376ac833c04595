-- Store the newest answer of GitHub to a request.
INSERT INTO github_answers (key, etag, link, body, kept_us) VALUES (:key, :etag, :link, :body, :now_us)
ON CONFLICT (key) DO UPDATE SET etag = excluded.etag, link = excluded.link, body = excluded.body, kept_us = excluded.kept_us
