"""Static checks of handlers. Their source is read and never imported."""
