-- The keys among these under which an answer is stored.
SELECT key FROM requests WHERE key IN (SELECT value FROM json_each(:keys))
