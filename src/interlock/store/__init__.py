"""Where state lives: the port that a database must fill, and what both databases share."""
