-- A commit that was acknowledged survives a crash, so that no fence is given out twice.
-- mend: Set fsync = on and synchronous_commit to on or stricter for this database.
SELECT name || ' is ' || setting FROM pg_settings
WHERE (name = 'fsync' AND setting = 'off') OR (name = 'synchronous_commit' AND setting = 'off')
