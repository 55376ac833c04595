-- Acknowledged commits survive a crash, so no fence is issued twice.
-- mend: Set fsync = on and synchronous_commit to on or stricter for this database.
SELECT name || ' is ' || setting FROM pg_settings
WHERE (name = 'fsync' AND setting = 'off') OR (name = 'synchronous_commit' AND setting = 'off')
