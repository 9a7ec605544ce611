"""Rebuild a cache entry when something it shows has changed, however often it is reset meanwhile."""
