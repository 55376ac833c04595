"""The server: the service over HTTP, webhooks, and the duties that a store needs somebody for."""
