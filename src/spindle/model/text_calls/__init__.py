"""Calls as text, for models and servers without function calling, and for models that forget how to call."""
