#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The library exports what src/tutti.map lists and the headers of include/tutti declare, no more and no less; and each header
# compiles alone as C11 and as C++17.
#
#   exports.sh LIBRARY MAP HEADERS
set -euo pipefail
library=$1 map=$2 headers=$3
. "$(dirname "$(readlink -f "$0")")/declared.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# the version node itself is an absolute symbol
nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort >"$work/exported"
sed -n '/^global:/,/^local:/p' "$map" | grep -o 'tutti_[a-z0-9_]*' | sort >"$work/listed"
declared "$headers" >"$work/declared"

compare() {
	if ! diff -u "$work/$1" "$work/$2" >"$work/difference"; then
		echo "exports: what is $1 (-) differs from what is $2 (+):"
		sed -n '4,$p' "$work/difference" | grep '^[-+]'
		failed=1
	fi
}
[ -s "$work/exported" ] || {
	echo "exports: $library exports nothing"
	exit 1
}
compare listed exported
compare declared exported

strict="-Wall -Wextra -pedantic -Werror -fsyntax-only"
for header in "$headers"/*.h; do
	printf '#include "%s"\nint main(void) { tutti_config_t c = TUTTI_CONFIG_INIT; return (int)c.reproducible; }\n' "$header" \
		>"$work/alone.c"
	cp "$work/alone.c" "$work/alone.cpp"
	# shellcheck disable=SC2086
	cc -std=c11 $strict "$work/alone.c" || failed=1
	# shellcheck disable=SC2086
	c++ -std=c++17 $strict "$work/alone.cpp" || failed=1
done

echo "exports: $(wc -l <"$work/exported") symbols"
exit $failed
