"""The state: the port that a database implements, and the code that both databases share."""
