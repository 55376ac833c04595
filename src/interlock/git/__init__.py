"""Git as plumbing: the only room that runs git."""
