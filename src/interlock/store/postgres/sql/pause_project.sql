-- Pause a project: its items are not claimed.
INSERT INTO interlock.paused_projects (project, why) VALUES (%(project)s, %(why)s)
ON CONFLICT (project) DO UPDATE SET why = excluded.why
