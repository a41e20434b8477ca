#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Every source is as .clang-format has it, and no line of a public header or of prose is longer than 100 columns.
#   format.sh CHECKOUT
# Versions of clang-format differ: it is that of Debian 12.
set -euo pipefail
cd "$1"
version=14

found=$(clang-format --version 2>/dev/null | sed -n 's/.*version \([0-9]*\).*/\1/p') || true
if [ "$found" != $version ]; then
	printf 'skipped: clang-format is %s, expected version %s (Debian 12: apt-get install clang-format)\n' \
		"${found:-missing}" $version
	exit 77
fi
status=0
find algorithms bench bindings examples include src tests tools trainer transports \
	\( -name '*.c' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' -o -name '*.cpp' \) -print0 |
	xargs -0 -P2 -n 50 clang-format --dry-run -Werror || status=1
[ $status -eq 0 ] || printf 'format: run clang-format -i on the files above\n'
for header in include/tutti/*.h; do
	expand "$header" | LC_ALL=C.UTF-8 grep -nE '^.{101,}' | sed "s|^|$header:|" && status=1
done
for page in *.md data/*.md docs/*.md docs/*/*.md docs/*/*/*.md tests/*.md; do # without code and tables
	sed '/^ *```/,/^ *```/d; /^    /d; /^ *|/d' "$page" | LC_ALL=C.UTF-8 grep -E '^.{101,}' | sed "s|^|$page: |" && status=1
done
exit $status
