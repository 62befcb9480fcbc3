"""Runs on a real standalone Spark cluster. Each host is a loopback address of this machine."""
