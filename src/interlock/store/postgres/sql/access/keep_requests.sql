-- Store the answers to requests. Fails if one of the requests was already carried out.
INSERT INTO interlock.requests (key, asked, answer, at_us)
SELECT key, asked, answer, coalesce(%(now_us)s, interlock.clock_us())
FROM unnest(%(keys)s::text[], %(asked)s::text[], %(answers)s::text[]) AS each(key, asked, answer) ORDER BY key
