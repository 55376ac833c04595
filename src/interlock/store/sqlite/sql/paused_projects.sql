-- Paused projects, with the reasons.
SELECT project, why FROM paused_projects ORDER BY project
