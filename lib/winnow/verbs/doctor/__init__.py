"""The doctor's page: free space, what can be freed, and what to run next."""
