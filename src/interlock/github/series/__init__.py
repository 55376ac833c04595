"""Series of issues on GitHub: of each, one issue at a time is assigned."""
