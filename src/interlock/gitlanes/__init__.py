"""Lanes on a git remote: no server, no database."""
