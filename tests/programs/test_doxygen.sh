#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Doxygen has no warning about the public headers, and writes a page for each.
#   test_doxygen.sh DOXYFILE
set -euo pipefail
command -v doxygen >/dev/null || {
	echo "skipped: doxygen was not found; install it (Debian: apt-get install doxygen)"
	exit 77
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
{ cat "$1" && printf 'OUTPUT_DIRECTORY = %s\n' "$work"; } | doxygen -
for page in tutti_8h.html cuda_8h.html; do
	[ -s "$work/html/$page" ] || {
		printf 'doxygen: found no %s, expected a page for each public header\n' "$page"
		exit 1
	}
done
