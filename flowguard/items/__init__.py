"""What a handler writes to items of the user's tables."""
