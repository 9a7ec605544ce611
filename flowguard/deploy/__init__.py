"""The deployment of flows. What they need is read from their classes and handlers."""
