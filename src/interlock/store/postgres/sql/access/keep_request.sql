-- A request is carried out, with this answer. Fails if it was carried out before.
INSERT INTO interlock.requests (key, asked, answer, at_us) VALUES (%(key)s, %(asked)s, %(answer)s, coalesce(%(now_us)s, interlock.clock_us()))
