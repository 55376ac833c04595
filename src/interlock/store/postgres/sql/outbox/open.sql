-- Reserve places for some effects in the queue of a number. Gives the last one. The queue is locked.
INSERT INTO interlock.github_outboxes AS box (repository, number, last_place)
SELECT %(repository)s, %(number)s, %(count)s WHERE interlock.expect({schema})
ON CONFLICT (repository, number) DO UPDATE SET last_place = box.last_place + excluded.last_place RETURNING last_place
