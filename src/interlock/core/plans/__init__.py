"""The rules of plans: graphs of tasks that an agent edits while they run."""
