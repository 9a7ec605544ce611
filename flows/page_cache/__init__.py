"""Make a page or a search once for all who ask for it, and make a page anew when what it shows has changed."""
