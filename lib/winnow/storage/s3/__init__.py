"""S3 behind the storage contract: a change takes effect at one conditional write."""
