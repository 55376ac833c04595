"""`interlock hook`: what an agent's program is answered while it works for a run."""
