"""Read everything in log directories and name all that is wrong."""
