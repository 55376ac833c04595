-- Record when an agent claims, to within a few seconds, which is less than it may be silent. A later time was written by a wrong
-- clock, and is replaced.
INSERT INTO agents (key, name, seen_us) VALUES (:key, :name, :now_us)
ON CONFLICT (key) DO UPDATE SET seen_us = :now_us
    WHERE ifnull(seen_us, 0) < :now_us - min(ifnull(nullif(overtake_after_s, 0), 60) * 62500, 4000000)
        OR seen_us > :now_us + 4000000
