"""How much the explorer finds: small handlers and flows with one bug each, and sound ones."""
