-- Projects whose items are not claimed, and why.
SELECT project, why FROM interlock.paused_projects ORDER BY project
