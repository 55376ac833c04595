-- From now on an effect may have been sent.
UPDATE github_effects SET sent_us = :now_us
WHERE repository = :repository AND number = :number AND place = :place
