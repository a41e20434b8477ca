# SPDX-License-Identifier: BSD-3-Clause
"""Kinds of arguments that several programs take: each says what was found and what was expected."""
import argparse


def numbers(least, most):
    """Different ones, such as 2,4."""
    def parse(text):
        words = text.split(',')
        if not all(word.isdecimal() and least <= int(word) <= most for word in words):
            raise argparse.ArgumentTypeError(f'"{text}" was found, expected numbers from {least} to {most}')
        return list(dict.fromkeys(map(int, words)))
    return parse


def seconds(text):
    try:
        if 0 < float(text) < float('inf'):
            return float(text)
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f'"{text}" was found, expected seconds, more than 0')
