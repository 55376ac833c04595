-- An agent that asks for work is known from then on; the time is kept to a few seconds, less than it may make no claim.
INSERT INTO agents (key, name, seen_us) VALUES (:key, :name, :now_us)
ON CONFLICT (key) DO UPDATE SET seen_us = :now_us
    WHERE ifnull(seen_us, 0) < :now_us - min(ifnull(nullif(overtake_after_s, 0), 60) * 62500, 4000000)
