-- Set an agent's quota limit, until which it starts nothing. The later of two limits counts.
UPDATE agents SET wall_us = ?2, wall_why = ?3 WHERE key = ?1 AND ?2 >= ifnull(wall_us, 0)
