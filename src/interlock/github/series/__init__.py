"""Series of issues on GitHub: one issue of each is assigned at a time."""
