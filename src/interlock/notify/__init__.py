"""Users' commands that are told of events: dead letters, questions to people."""
