-- Set the gate of a lane, as decided.
UPDATE lanes SET gate_series = ?2, gate_open = ?3, gate_exempt = ?4, gate_us = ?5 WHERE lane = ?1
