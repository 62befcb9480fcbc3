"""Read files that another program is changing."""
