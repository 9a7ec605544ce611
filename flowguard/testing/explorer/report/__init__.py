"""The report of what was found: as text, as JSON and as a page."""
