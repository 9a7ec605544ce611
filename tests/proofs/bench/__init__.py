"""What a message costs, as ratios measured in one run: ``make bench``. One figure a module."""
