-- An agent that asks for work is known from then on; its last time is kept to half a minute.
INSERT INTO agents (key, name, seen_us) VALUES (:key, :name, :now_us)
ON CONFLICT (key) DO UPDATE SET seen_us = :now_us WHERE ifnull(seen_us, 0) < :now_us - 30000000
