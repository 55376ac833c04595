-- The reaction of a run is gone, or somebody owes that it goes; gives the run if it was there.
DELETE FROM github_signs WHERE run = :run RETURNING run
