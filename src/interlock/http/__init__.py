"""The server: the service over HTTP, webhooks, and the background work of a store."""
