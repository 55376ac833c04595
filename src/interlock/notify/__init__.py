"""Runs users' commands on events: dead letters, questions to people."""
