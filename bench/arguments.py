# SPDX-License-Identifier: BSD-3-Clause
"""What the arguments of several programs have in common. Each kind says what was found and what was expected."""
import argparse
import re


def not_written(program, error):
    return f'{program}: cannot write the standard output: {error.strerror}; make space, or name another place'


class Parser(argparse.ArgumentParser):
    """To argparse a help that could not be written is written."""

    def print_help(self, file=None):
        try:
            with open(1, 'w', closefd=False) as output:
                output.write(self.format_help())
        except OSError as error:
            self.exit(1, not_written(self.prog, error) + '\n')


def numbers(least, most):
    """Different ones, such as 2,4."""
    def parse(text):
        words = text.split(',')
        if not all(word.isdecimal() and least <= int(word) <= most for word in words):
            raise argparse.ArgumentTypeError(f'"{text}" was found, expected numbers from {least} to {most}')
        return list(dict.fromkeys(map(int, words)))
    return parse


def number(least, most):
    def parse(text):
        if not re.fullmatch('[0-9]{1,9}', text) or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f'"{text}" was found, expected a whole number from {least} to {most}')
        return int(text)
    return parse


def words(pattern, expected):
    """Different ones, such as shm,tcp."""
    def parse(text):
        chosen = [word for word in text.split(',') if word]
        for word in chosen or ['']:
            if not re.fullmatch(pattern, word):
                raise argparse.ArgumentTypeError(f'"{word}" was found, expected {expected}')
        return list(dict.fromkeys(chosen))
    return parse


def some_of(allowed):
    return words('|'.join(map(re.escape, allowed)), 'some of ' + ','.join(allowed))


def amount(unit, zero=False):
    def parse(text):
        try:
            if 0 < float(text) < float('inf') or (zero and float(text) == 0):
                return float(text)
        except ValueError:
            pass
        raise argparse.ArgumentTypeError(f'"{text}" was found, expected {unit}, {"0 or more" if zero else "more than 0"}')
    return parse


seconds = amount('seconds')
