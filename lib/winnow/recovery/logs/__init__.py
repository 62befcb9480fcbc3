"""Recover a log directory after an unclean shutdown, as a broker that starts and stops would."""
