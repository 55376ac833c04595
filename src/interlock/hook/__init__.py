"""`interlock hook`: answers an agent's program while it works for a run."""
