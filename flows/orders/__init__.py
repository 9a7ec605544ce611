"""Take orders from a stock: order, stock and the note that it was done change together, or not at all."""
