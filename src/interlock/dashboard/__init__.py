"""The dashboard: pages for people, drawn from operations of the service."""
