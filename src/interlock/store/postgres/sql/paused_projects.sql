-- Paused projects, with the reasons.
SELECT project, why FROM interlock.paused_projects ORDER BY project
