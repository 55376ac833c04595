-- Store the answers to requests. Writes nothing for a request that was already carried out.
INSERT OR IGNORE INTO requests (key, asked, answer, at_us)
SELECT value ->> 0, value ->> 1, value ->> 2, :now_us FROM json_each(:requests)
RETURNING key
