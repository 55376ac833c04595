-- Items of the project may be claimed again.
DELETE FROM paused_projects WHERE project = :project
