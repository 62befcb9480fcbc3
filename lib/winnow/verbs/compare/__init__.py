"""`verify --compare`: whether replicas of a partition tell consumers the same."""
