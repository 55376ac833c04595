-- Resume a project: its items may be claimed again.
DELETE FROM paused_projects WHERE project = :project
