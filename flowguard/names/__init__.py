"""Names of objects, requests, resources and public names."""
