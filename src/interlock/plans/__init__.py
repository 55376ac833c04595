"""Plan files, diffs and pictures."""
