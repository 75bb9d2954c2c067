"""Shapes, and how they are written down."""

import json
import math


class Circle:
    def __init__(self, radius):
        if radius <= 0:
            raise ValueError("a radius is above 0")
        self.radius = radius

    def area(self):
        return math.pi * self.radius**2


class Box:
    def __init__(self, width, height):
        if width <= 0 or height <= 0:
            raise ValueError("sides are above 0")
        self.width = width
        self.height = height

    def area(self):
        return self.width * self.height


KINDS = {"circle": Circle, "box": Box}


def to_json(shape):
    for kind, class_ in KINDS.items():
        if isinstance(shape, class_):
            return json.dumps({"kind": kind, **vars(shape)}, sort_keys=True)
    raise TypeError(f"not a shape: {shape!r}")


def from_json(text):
    fields = json.loads(text)
    return KINDS[fields.pop("kind")](**fields)


def total_area(shapes):
    return sum(shape.area() for shape in shapes)
