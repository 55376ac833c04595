-- The keys among these under which an answer is stored.
SELECT key FROM interlock.requests WHERE key = ANY((SELECT %(keys)s::text[])::text[])
