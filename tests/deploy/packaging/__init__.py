"""Tests of what ``flowguard package`` makes. No test needs a package index: wheels are made by hand."""
