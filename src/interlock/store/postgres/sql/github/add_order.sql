-- Write an order, once by its name.
INSERT INTO interlock.github_consequences (repository, number, place, name, data, due_us)
VALUES (%(repository)s, %(number)s, %(place)s, %(name)s, %(data)s, coalesce(%(now_us)s, interlock.clock_us())) ON CONFLICT DO NOTHING RETURNING name
