"""Pages: few objects, many requests. The newest request wins; what the others still do must not be seen."""
