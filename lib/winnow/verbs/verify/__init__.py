"""Read everything in log directories and report all that is wrong."""
