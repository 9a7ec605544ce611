"""moto held to AWS's limits: what AWS refuses is refused before moto sees it."""
