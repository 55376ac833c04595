"""The service of a server over HTTP, with the same interface as on a database."""
