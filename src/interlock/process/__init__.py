"""A command under a lease: its process, its signals, its heartbeat."""
