#!/usr/bin/env python3
"""Count words: wordcount.py [FILE...]; without files it reads standard input."""

import argparse
import re
import sys


def words(text):
    return re.findall(r"\w+", text.lower())


def main(argv=None):
    parser = argparse.ArgumentParser(description="Count the words of files.")
    parser.add_argument("files", nargs="*")
    options = parser.parse_args(argv)
    texts = [open(name).read() for name in options.files] or [sys.stdin.read()]
    print(sum(len(words(text)) for text in texts))


if __name__ == "__main__":
    main()
