"""The documentation, and what keeps it true: generated reference pages and examples that are run."""
