-- Mark an effect as possibly sent.
UPDATE github_effects SET sent_us = :now_us
WHERE repository = :repository AND number = :number AND place = :place
