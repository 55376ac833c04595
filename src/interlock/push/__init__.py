"""`interlock push`: a push that the git server refuses once a later run holds the lane."""
