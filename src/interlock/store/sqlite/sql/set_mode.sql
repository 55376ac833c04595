-- Set one mode for a project or a lane prefix.
INSERT INTO modes (scope, value, mode) VALUES (:scope, :value, :mode)
ON CONFLICT (scope, value) DO UPDATE SET mode = excluded.mode
