-- Places for what follows from a remark; gives the last one.
UPDATE github_numbers SET last_place = last_place + :count WHERE repository = :repository AND number = :number RETURNING last_place
