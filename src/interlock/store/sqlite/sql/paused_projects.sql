-- Projects whose items are not claimed, and why.
SELECT project, why FROM paused_projects ORDER BY project
