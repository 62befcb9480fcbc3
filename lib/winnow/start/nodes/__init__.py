"""The nodes whose log directories were given, and their quorum."""
