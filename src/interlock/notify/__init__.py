"""Tells users of dead letters and questions: runs their commands, and sends notices to receivers."""
