"""What AWS does on a bad day, as layers over any engine, each switched on by its name."""
