-- Delete the reaction of a run, which is removed or will be by an effect. Gives the run if there was one.
DELETE FROM interlock.github_signs WHERE interlock.expect({schema}) AND run = %(run)s RETURNING run
