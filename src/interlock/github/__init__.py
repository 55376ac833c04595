"""GitHub: events become work, runs stay in sync, and every effect happens once. Nothing else calls GitHub."""
