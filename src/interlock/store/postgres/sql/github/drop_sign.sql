-- The reaction of a run is gone, or somebody owes that it goes; gives the run if it was there.
DELETE FROM interlock.github_signs WHERE interlock.expect({schema}) AND run = %(run)s RETURNING run
