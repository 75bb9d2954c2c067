#!/usr/bin/env python3
"""A number in a file: counter.py FILE [STEP] adds STEP (1) and prints the new number."""

import sys


def bump(path, step=1):
    try:
        with open(path) as file:
            number = int(file.read())
    except FileNotFoundError:
        number = 0
    number += step
    with open(path, "w") as file:
        file.write(str(number))
    return number


if __name__ == "__main__":
    print(bump(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1))
