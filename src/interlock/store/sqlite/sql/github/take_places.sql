-- Reserve places for the orders of a remark. Gives the last one.
UPDATE github_numbers SET last_place = last_place + :count WHERE repository = :repository AND number = :number RETURNING last_place
