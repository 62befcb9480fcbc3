"""Write each group's surviving batches as one new segment, and read it back.

All files are written to a staging directory. Nothing here changes the log.
"""
