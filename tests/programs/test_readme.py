#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The README's program is examples/hello.c: test_readme.py README.md hello.c"""
import re
import sys

readme, example = (open(path, encoding='utf-8').read() for path in sys.argv[1:3])
blocks = re.findall(r'^```c\n(.*?)^```$', readme, re.MULTILINE | re.DOTALL)
if example not in blocks:
    sys.exit(f'README.md has {len(blocks)} blocks of C, expected one of them to be '
             f'{sys.argv[2]}, letter by letter: copy the file into the block')
