"""Every shape in which a message comes, and the one that it gets."""
