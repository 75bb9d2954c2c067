"""A small shop."""

from shop.prices import get_total

__all__ = ["get_total"]
