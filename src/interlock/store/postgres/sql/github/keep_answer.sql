-- Store the newest answer of GitHub to a request.
INSERT INTO interlock.github_answers (key, etag, link, body, kept_us)
SELECT %(key)s, %(etag)s, %(link)s, %(body)s, coalesce(%(now_us)s, interlock.clock_us()) WHERE interlock.expect({schema})
ON CONFLICT (key) DO UPDATE SET etag = excluded.etag, link = excluded.link, body = excluded.body, kept_us = excluded.kept_us
