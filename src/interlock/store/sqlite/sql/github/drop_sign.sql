-- Delete the reaction of a run, which is removed or will be by an effect. Gives the run if there was one.
DELETE FROM github_signs WHERE run = :run RETURNING run
