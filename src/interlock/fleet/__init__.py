"""A fleet: the workers that a `fleet.toml` names, each a process, started and kept running together."""
