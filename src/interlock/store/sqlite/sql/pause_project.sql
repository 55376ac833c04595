-- Pause a project: its items are not claimed.
INSERT INTO paused_projects (project, why) VALUES (:project, :why)
ON CONFLICT (project) DO UPDATE SET why = excluded.why
