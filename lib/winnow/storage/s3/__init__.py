"""S3 behind the storage contract: a change counts at one conditional write."""
