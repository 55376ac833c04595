"""`interlock hold`: a command that runs while it holds a lane."""
