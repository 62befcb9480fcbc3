"""What a crash at any instant leaves on disk, and what the next start does with it."""
