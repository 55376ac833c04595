"""Git as plumbing: the only package that runs git."""
