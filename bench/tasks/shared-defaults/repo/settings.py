"""Settings in layers: built in, of the system, of the user."""

DEFAULTS = {"colour": True, "width": 80, "paths": ["."], "editor": {"name": "vi", "options": []}}


def merge(*layers, into=DEFAULTS):
    """One dict of all layers; later ones win. Tables are merged key by key, lists are replaced, None takes a key away."""
    for layer in layers:
        for key, value in layer.items():
            if isinstance(value, dict):
                merge(value, into=into[key])
            elif value:
                into[key] = value
    return into
