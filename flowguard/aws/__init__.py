"""Everything that knows AWS: the only place with boto3 and with condition expressions."""
