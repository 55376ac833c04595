"""The service of a server, over HTTP: the same interface as on a database."""
