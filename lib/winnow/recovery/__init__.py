"""Bring a log directory back: `runs` finishes, undoes or purges runs of Winnow, and `logs` recovers
what a broker left by an unclean shutdown. Nothing here applies a policy: see `cleaning` for that.
"""
