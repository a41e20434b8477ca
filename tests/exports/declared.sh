# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# For tests that source this file.

# declared HEADERS: the functions that these declare, sorted: what the preprocessor leaves of TUTTI_API, up to the name before the
# first parenthesis
declared() {
	cat "$1"/*.h | cc -E -P -x c -I "$1" -DTUTTI_API=TUTTI_API - 2>/dev/null | tr '\n' ' ' | tr ';' '\n' |
		grep 'visibility("default")' | sed 's/.*visibility("default")))//' |
		grep -o 'tutti_[a-z0-9_]* *(' | tr -d ' (' | sort
}
