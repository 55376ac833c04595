-- An agent starts nothing until a time; of two walls the later one counts.
UPDATE agents SET wall_us = ?2, wall_why = ?3 WHERE key = ?1 AND ?2 >= ifnull(wall_us, 0)
