"""Charge a card through a gateway that fails in every way a gateway can, and book what was charged."""
