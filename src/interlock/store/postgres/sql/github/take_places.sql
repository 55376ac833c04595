-- Reserve places for the orders of a remark. Gives the last one.
UPDATE interlock.github_numbers SET last_place = last_place + %(count)s
WHERE interlock.expect({schema}) AND repository = %(repository)s AND number = %(number)s RETURNING last_place
