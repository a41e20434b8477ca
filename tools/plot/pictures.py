# SPDX-License-Identifier: BSD-3-Clause
"""Owns how programs in Python have gnuplot draw, in the style of all pictures, and how they write a file: whole, or as it was."""
import argparse
import os
import shutil
import stat
import subprocess
import sys

THEME = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'theme.gp')


def picture_name(path):
    """Of an option, before anything is done for the picture."""
    if os.path.splitext(path)[1] not in ('.svg', '.png'):
        raise argparse.ArgumentTypeError(f"found '{path}', expected a file name that ends in .svg or .png")
    if not shutil.which('gnuplot'):
        sys.exit('--plot: gnuplot was not found in PATH; install it (Debian: gnuplot-nox) or leave out --plot')
    if not os.access(os.path.dirname(path) or '.', os.W_OK | os.X_OK):
        sys.exit(f'--plot: {path} cannot be written; give a file in a directory that exists and can be written')
    return path


def quoted(text):
    """A string of a script. A quote is one of its own: two in a row, each written twice, are an error to gnuplot 5.4."""
    return "'" + text.replace("'", """'."'".'""") + "'"


def plotted(prefix, points, looks, before=''):
    """Lines of a script: a curve of each name's points, in the line types of `looks`, behind what is plotted `before`."""
    script = []
    for name, values in points.items():
        script += [f'${prefix}{name} << END', *(f'{x} {y:.6g}' for x, y in sorted(values.items())), 'END']
    return script + ['plot ' + before + ', '.join(
        f'${prefix}{name} using 1:2 with linespoints lt {looks[name]} notitle' for name in points)]


def write_picture(path, heading, origin, legend, body, graphs):
    """`legend`: line types of the theme by name; `graphs`: lines of the script behind the theme."""
    names, styles = ' '.join('"' + name.replace('"', "'") + '"' for name in legend), ' '.join(map(str, legend.values()))
    with open(THEME, encoding='utf-8') as file:
        theme = file.read()
    script = [f'file = {quoted(path)}', f'heading = {quoted(heading)}', f'origin = {quoted(origin)}',
              f'names = {quoted(names)}', f'styles = {quoted(styles)}', f'body = {body:.1f}', theme, *graphs,
              'unset multiplot', 'unset output', '']
    drawn = subprocess.run(['gnuplot'], input=os.fsencode('\n'.join(script)), capture_output=True, check=False)
    if drawn.returncode or not drawn.stdout:
        sys.stderr.write(drawn.stderr.decode(errors='replace'))     # warnings alone are nothing that a user can act on
        sys.exit(f'--plot: gnuplot ended with status {drawn.returncode} and drew nothing for "{path}"; '
                 'its message says why')
    try:
        write_whole(path, drawn.stdout)
    except OSError as error:
        sys.exit(f'--plot: cannot write "{path}": {error.strerror}; make space, or name another place')


def write_whole(path, content):
    """A file is whole, or as it was; a device is written to."""
    path = os.path.realpath(path)
    if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
        with open(path, 'wb') as file:
            file.write(content)
        return
    beside = f'{path}.{os.getpid()}.tmp'
    try:
        with open(beside, 'xb') as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError:
        if os.path.exists(beside):
            os.remove(beside)
        raise
