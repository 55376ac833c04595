-- Items of the project may be claimed again.
DELETE FROM interlock.paused_projects WHERE project = %(project)s
