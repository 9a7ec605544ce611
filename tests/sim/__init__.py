"""Tests of the AWS that runs inside the process."""
