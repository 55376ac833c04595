"""GitHub: turns events into work, keeps runs in sync, and sends every effect once. Only this package calls
GitHub."""
