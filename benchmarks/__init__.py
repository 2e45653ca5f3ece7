"""Figures that this project promises, measured on the machine at hand: ``make bench``."""
