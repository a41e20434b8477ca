#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# mypy --strict passes on the package and on the examples.
#   types.sh PACKAGE CHECKOUT
set -euo pipefail
package=$1 checkout=$2
python=
for candidate in ${TEST_PYTHON-} python3 /usr/bin/python3; do
	"$candidate" -c 'import mypy, numpy' 2>/dev/null && python=$candidate && break
done
[ -n "$python" ] || {
	printf 'skipped: no Python here has mypy and NumPy (pip install mypy numpy; TEST_PYTHON names one)\n'
	exit 77
}
cache=$(mktemp -d)
trap 'rm -rf "$cache"' EXIT
cd "$checkout"
export MYPYPATH=$package
# other libraries' arrays are known at run time only
"$python" -m mypy --strict --cache-dir "$cache" --ignore-missing-imports -p tutti
for example in examples/python/*.py; do
	"$python" -m mypy --strict --cache-dir "$cache" "$example"
done
