"""Tests of what is looked at before anything is live."""
