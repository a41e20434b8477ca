#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A source file that a comment or a page names exists.

  named_files.py CHECKOUT
"""
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


def files():
    for room in ROOMS:
        for folder, _, names in os.walk(room):
            yield from (os.path.join(folder, name) for name in names)


def main():
    os.chdir(sys.argv[1])
    paths = set(files())
    known = {path[at:] for path in paths for at in range(len(path)) if at == 0 or path[at - 1] == '/'} | FOREIGN
    missing = 0
    for path in sorted(path for path in paths if path.endswith((*SOURCES, '.md'))):
        with open(path, encoding='utf-8') as file:
            text = file.read()
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
