"""`interlock session`: locks between the processes of one host."""
