"""What a crash at any instant leaves behind, and what becomes of it."""
