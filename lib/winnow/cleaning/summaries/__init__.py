"""What earlier runs found out about closed segments: which keys they may have, and that a cleaning
leaves them as they are. So a run reads only what may have changed (docs/decisions/0054). Nothing
here changes a log directory, and nothing here is needed: a summary that does not fit is ignored.
"""
