-- Reserve places for some effects in the queue of a number. Gives the last one.
INSERT INTO github_outboxes AS box (repository, number, last_place) VALUES (:repository, :number, :count)
ON CONFLICT (repository, number) DO UPDATE SET last_place = box.last_place + excluded.last_place RETURNING last_place
