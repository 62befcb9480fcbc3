"""How a `CommandLine` comes about: from words, and from a saved plan. Nothing here runs a verb."""
