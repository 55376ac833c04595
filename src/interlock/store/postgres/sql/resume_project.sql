-- Resume a project: its items may be claimed again.
DELETE FROM interlock.paused_projects WHERE project = %(project)s
