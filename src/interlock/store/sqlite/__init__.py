"""The embedded store: one SQLite file, many processes of one host."""
