-- Gates hold back exactly the items they cover, and their runs were asked to stop.
-- mend: interlock sweep --once
SELECT 'item ' || id || ' on lane ' || lane FROM interlock.misgated
