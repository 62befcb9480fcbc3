"""One page for who has to act: free space, what can be freed, what to run next."""
