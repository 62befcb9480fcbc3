"""Read files that another program is changing, and disturb it as little as possible."""
