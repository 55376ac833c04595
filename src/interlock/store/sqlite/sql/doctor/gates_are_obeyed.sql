-- An item is kept from claims exactly while its lane is shut for its type, and a run there was asked to stop.
-- mend: interlock sweep --once
SELECT 'item ' || id || ' on lane ' || lane FROM misgated
