#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every environment variable that is read stands in docs/reference/environment.md, and those of tutti in the list by which others are
warned of, too: test_env.py ROOT

In C a variable is a name handed to getenv(), that of a library (src/library/library.h), or a string in capitals in a file that calls getenv() with a name
it was given; in scripts, what is taken from os.environ."""
import pathlib
import re
import sys

NAME = r'[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)*'
DIRECT = re.compile(rf'\b(?:secure_)?getenv\(\s*"({NAME})"')
OF_LIBRARY = re.compile(rf'\.variable = "({NAME})"')
BY_NAME = re.compile(r'\b(?:secure_)?getenv\(\s*[^")]')
LITERAL = re.compile(r'"([A-Z][A-Z0-9]*(?:_[A-Za-z0-9]+)+|RANK|PATH)"')
SCRIPT = re.compile(rf'os\.(?:environ(?:\.get\(|\[)|getenv\()\s*[\'"]({NAME})[\'"]')
SCRIPT_NAMED = re.compile(rf'^({NAME}) = [\'"]({NAME})[\'"]', re.MULTILINE)
NO_VARIABLES = {'TUTTI_CONFIG_INIT'}  # named in a sentence


def variables_of(path):
    text = path.read_text(encoding='utf-8')
    if path.suffix in ('.c', '.h', '.cc'):
        names = set(DIRECT.findall(text)) | set(OF_LIBRARY.findall(text))
        if BY_NAME.search(text):
            names |= set(LITERAL.findall(text))
        return names - NO_VARIABLES
    names = set(SCRIPT.findall(text))
    constants = dict(SCRIPT_NAMED.findall(text))
    return names | {value for name, value in constants.items()
                    if re.search(rf'os\.environ(?:\.get\(|\[){name}\b', text)}


root = pathlib.Path(sys.argv[1])
documented = set(re.findall(rf'`({NAME})', (root / 'docs/reference/environment.md').read_text(encoding='utf-8')))
found = {}
for directory in ('src', 'transports', 'algorithms', 'tools', 'bench', 'trainer'):
    for path in sorted((root / directory).rglob('*')):
        if path.is_file() and (path.suffix in ('.c', '.h', '.cc', '.py') or not path.suffix):
            for name in variables_of(path):
                found.setdefault(name, path.relative_to(root))
if len(found) < 30:
    sys.exit(f'found only {sorted(found)} in {root}: is this the root of the source?')
listed = re.findall(r'^\t"(TUTTI_\w+)",$', (root / 'src/spelling/variables.c').read_text(encoding='utf-8'), re.MULTILINE)
own = {name for name in documented if name.startswith('TUTTI_') and not name.startswith('TUTTI_ERR_')}
if len(set(listed)) != len(listed):
    sys.exit('src/spelling/variables.c has a name twice: leave one')
for name in sorted(own.symmetric_difference(listed)):
    there, lacking = ('docs/reference/environment.md', 'src/spelling/variables.c') if name in own else \
        ('src/spelling/variables.c', 'docs/reference/environment.md')
    print(f'{there} has {name}, which {lacking} does not have: both list all of them', file=sys.stderr)
missing = {name: path for name, path in found.items() if name not in documented}
for name, path in sorted(missing.items()):
    print(f'{path} reads {name}, which docs/reference/environment.md does not have: add a row', file=sys.stderr)
sys.exit(1 if missing or own != set(listed) else 0)
