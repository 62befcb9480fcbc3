"""`verify --compare`: check whether the replicas of a partition give consumers the same records."""
