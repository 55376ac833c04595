"""`interlock work`: claims items and runs a command for each."""
