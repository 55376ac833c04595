-- Record that the store has moved to :path. Version 0.1.0 finds more migrations than it knows, and refuses the file with a message.
INSERT INTO migrations (version, name, checksum, applied_us)
WITH RECURSIVE extra (n) AS (SELECT max(version) + 1 FROM migrations UNION ALL SELECT n + 1 FROM extra WHERE n < 999)
SELECT n, iif(n = 999, :path, 'moved'), '', 0 FROM extra
