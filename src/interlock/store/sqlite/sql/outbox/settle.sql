-- Mark an effect as carried out or dropped.
UPDATE github_effects SET done_us = :now_us, made = :made, outcome = :outcome
WHERE repository = :repository AND number = :number AND place = :place AND done_us IS NULL AND dead_us IS NULL
