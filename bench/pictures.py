# SPDX-License-Identifier: BSD-3-Clause
"""Owns how programs in Python have gnuplot draw: in the style of all pictures, whole or not at all."""
import os
import subprocess
import sys

THEME = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tools', 'plot', 'theme.gp')


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


def write_picture(path, heading, origin, legend, body, graphs):
    """`legend`: line types of the theme by name; `graphs`: lines of the script behind the theme."""
    names, styles = ' '.join(f'"{name}"' for name in legend), ' '.join(map(str, legend.values()))
    with open(THEME, encoding='utf-8') as file:
        theme = file.read()
    script = [f'file = {quoted(path)}', f'heading = {quoted(heading)}', f'origin = {quoted(origin)}',
              f'names = {quoted(names)}', f'styles = {quoted(styles)}', f'body = {body:.1f}', theme, *graphs,
              'unset multiplot', 'unset output', '']
    drawn = subprocess.run(['gnuplot'], input='\n'.join(script).encode(), stdout=subprocess.PIPE, check=False)
    if drawn.returncode:
        sys.exit(f'--plot: gnuplot ended with status {drawn.returncode} and drew nothing for "{path}"; '
                 'its message says why')
    try:
        write_whole(path, drawn.stdout)
    except OSError as error:
        sys.exit(f'--plot: cannot write "{path}": {error.strerror}; make space, or name another place')


def write_whole(path, content):
    """gnuplot does not notice that a disk is full. What is not whole is removed."""
    file = open(path, 'wb')
    try:
        with file:
            file.write(content)
    except OSError:
        if os.path.isfile(path) and not os.path.islink(path):
            os.remove(path)
        raise
