"""Real runs that are killed with SIGKILL, and what the next run does with what they left."""
