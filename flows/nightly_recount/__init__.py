"""Ask every shop at once, and add up what they answer."""
