"""An AWS in memory. boto3's calls are answered here without HTTP, fast enough to try thousands of schedules."""
