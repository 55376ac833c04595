-- An agent that asks for work is known from then on; the time is kept to half a minute.
INSERT INTO interlock.agents AS a (key, name, seen_us) SELECT %(key)s, %(name)s, %(now_us)s WHERE interlock.expect({schema})
ON CONFLICT (key) DO UPDATE SET seen_us = excluded.seen_us
    WHERE coalesce(a.seen_us, 0) < excluded.seen_us - 30000000
