"""The generated pages of the reference: structure from the code, words from `docs/meanings.toml`."""
