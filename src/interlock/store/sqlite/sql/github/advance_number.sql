-- Write the new facts of a number, unless a newer revision was written meanwhile. Gives the last place of its orders.
INSERT INTO github_numbers (repository, number, revision, facts, wanted, read_us, last_place)
VALUES (:repository, :number, :revision, :facts, :wanted, :now_us, :count)
ON CONFLICT (repository, number) DO UPDATE
SET revision = excluded.revision, facts = excluded.facts, wanted = excluded.wanted, read_us = excluded.read_us,
    last_place = github_numbers.last_place + excluded.last_place
WHERE github_numbers.revision = excluded.revision - 1
RETURNING last_place
