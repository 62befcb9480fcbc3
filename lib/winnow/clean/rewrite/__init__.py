"""Write each group's surviving batches as one new segment, and read it back.

Everything lands in a staging directory. Nothing here touches the log.
"""
