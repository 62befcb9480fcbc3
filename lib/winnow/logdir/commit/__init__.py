"""Change a log so that a crash at any instant loses nothing: swap, journal, recovery, undo.

Every effect goes through `storage.contract.Storage`, in an order that tests replay.
"""
