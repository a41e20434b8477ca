#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A source file that a comment or a page names exists, and so does what a page links to.

  named_files.py CHECKOUT
"""
import glob
import os
import re
import sys

ROOMS = ('algorithms', 'bench', 'bindings', 'docs', 'examples', 'include', 'src', 'tests', 'tools', 'trainer', 'transports')
SOURCES = ('.c', '.h', '.cu', '.cuh', '.cpp')
# files of other projects that comments cite
FOREIGN = {'arm_neon.h', 'bio.h', 'cmocka.h', 'pmix_common.h', 'sanitizer/allocator_interface.h', 'libibverbs/dummy_ops.c',
           'drivers/infiniband/core/uverbs_std_types_mr.c', 'drivers/infiniband/core/uverbs_ioctl.c',
           'drivers/dma-buf/dma-buf.c'}
COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*', re.S)
NAME = re.compile(r'(?<![\w./<>%*{}$-])(?:\.\./)*((?:[\w-]+/)*[\w-]+\.(?:c|h|cuh?|cpp))\b(?![\w*])')
PLACEHOLDER = re.compile(r'NAME|NUMBER')
LINK = re.compile(r'\]\(([^)#:\s]*)(?:#([^)\s]*))?\)')


def files():
    for room in ROOMS:
        for folder, _, names in os.walk(room):
            yield from (os.path.join(folder, name) for name in names)


def anchors_of(page):
    """Those of its headings, as GitHub makes them."""
    with open(page, encoding='utf-8') as file:
        headings = re.findall(r'^#+ (.*)$', file.read(), re.M)
    return {re.sub(r'[^\w -]', '', heading).lower().replace(' ', '-') for heading in headings}


def dead_links(page, text):
    for link in LINK.finditer(text):
        path = os.path.normpath(os.path.join(os.path.dirname(page), link[1])) if link[1] else page
        if not os.path.exists(path) or link[2] and link[2] not in anchors_of(path):
            yield f'{page}:{text.count(chr(10), 0, link.start()) + 1}: nothing is at {link[0][2:-1]}'


def main():
    os.chdir(sys.argv[1])
    paths = {*files(), *glob.glob('*.md')}
    known = {path[at:] for path in paths for at in range(len(path)) if at == 0 or path[at - 1] == '/'} | FOREIGN
    missing = 0
    for path in sorted(path for path in paths if path.endswith((*SOURCES, '.md'))):
        with open(path, encoding='utf-8') as file:
            text = file.read()
        dead = list(dead_links(path, text)) if path.endswith('.md') else []
        print(*dead, sep='\n', end='\n' if dead else '')
        missing += len(dead)
        for comment in [re.match('.*', text, re.S)] if path.endswith('.md') else COMMENT.finditer(text):
            for name in NAME.finditer(comment.group()):
                if name.group(1) in known or PLACEHOLDER.search(name.group(1)):
                    continue
                line = text.count('\n', 0, comment.start() + name.start()) + 1
                print(f'{path}:{line}: no file is named {name.group(1)}')
                missing += 1
    return 1 if missing else 0


if __name__ == '__main__':
    sys.exit(main())
