"""Runs on a real Spark cluster: standalone, each host an address of this machine."""
