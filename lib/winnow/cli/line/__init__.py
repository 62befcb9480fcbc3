"""How a `CommandLine` comes about: from words, a file of options, a saved plan. Runs no verb."""
