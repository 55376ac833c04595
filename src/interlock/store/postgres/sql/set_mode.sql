-- Set one mode for a project or a lane prefix.
INSERT INTO interlock.modes (scope, value, mode) VALUES (%(scope)s, %(value)s, %(mode)s)
ON CONFLICT (scope, value) DO UPDATE SET mode = excluded.mode
