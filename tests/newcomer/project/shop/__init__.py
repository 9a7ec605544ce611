"""A tea shop: orders come by HTTP or from a partner's topic, and leave as parcels."""
