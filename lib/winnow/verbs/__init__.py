"""Every verb but `plan` and `clean`: each package is one of them.

They may use the pipeline. The pipeline does not know them.
"""
