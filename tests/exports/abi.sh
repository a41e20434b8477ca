#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Programs that were compiled with an earlier library of this ABI find the same types: what the headers declare is compared with
# what abi-NUMBER.xml beside this script has, which is made with the first version of that ABI (CONTRIBUTING.md). More may be there.
# And all places that have the version agree.
#
#   abi.sh SOURCE VERSION NUMBER            for example 0.2.0 0.2
#   abi.sh --write SOURCE VERSION NUMBER    makes that file
set -euo pipefail
write=
if [ "$1" = --write ]; then
	write=1
	shift
fi
source=$(readlink -f "$1") version=$2 number=$3
here=$(dirname "$(readlink -f "$0")")
. "$here/declared.sh"
reference=$here/abi-$number.xml
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
	printf 'abi: %s\n' "$*"
	exit 1
}

# ---- the version

grep -q "^## $version\b" "$source/CHANGELOG.md" && [ "$(grep -m 1 '^## ' "$source/CHANGELOG.md" | awk '{ print $2 }' | tr -d ,)" = "$version" ] ||
	fail "the newest version in CHANGELOG.md is \"$(grep -m 1 '^## ' "$source/CHANGELOG.md")\", expected $version, as in meson.build"
head -1 "$source/debian/changelog" | grep -q "($version)" ||
	fail "debian/changelog begins with \"$(head -1 "$source/debian/changelog")\", expected $version, as in meson.build"
of_header=$(sed -n 's/^#define TUTTI_VERSION_\(MAJOR\|MINOR\|PATCH\) \([0-9]*\).*/\2/p' "$source/include/tutti/tutti.h" | paste -s -d .)
[ "$of_header" = "$version" ] || fail "tutti.h has version $of_header (TUTTI_VERSION_…), expected $version, as in meson.build"
grep -q "^TUTTI_$number {" "$source/src/tutti.map" || fail "src/tutti.map has no node TUTTI_$number, expected that of version $version"
grep -q "^Package: libtutti$number$" "$source/debian/control" || fail "debian/control has no package libtutti$number, expected that of version $version"

# ---- the types

if ! command -v abidiff >/dev/null; then
	echo "skipped: abidiff is not installed (Debian 12: abigail-tools)"
	exit 77
fi
# A variable for each function, whose debug information has the function's type, and so all types that programs see.
declared "$source/include/tutti" >"$work/names"
{
	printf '#include <tutti/tutti.h>\n#include <tutti/window.h>\n#include <tutti/cuda.h>\n'
	sed 's/.*/__typeof__(\&&) abi_&;/' "$work/names"
} >"$work/abi.c"
compile() { # OPTION…
	cc -std=gnu11 -g -shared -fPIC -I "$source/include" "$@" "$work/abi.c" -o "$work/libtutti-abi.so"
}
compile
if [ -n "$write" ]; then
	abidw --no-corpus-path --no-comp-dir-path "$work/libtutti-abi.so" |
		sed "s|$work/||g; s|$source/||g" >"$reference"
	exit 0
fi
[ -r "$reference" ] || fail "there is no $reference, expected it since the first version of an ABI: tests/exports/abi.sh --write . $version $number"
is_the_same() {
	abidiff --no-architecture --no-added-syms "$reference" "$work/libtutti-abi.so" >"$work/out" 2>&1
}
if ! is_the_same; then
	cat "$work/out"
	fail "programs of version $number would find other types (above); go back, or raise the second number of the version"
fi
compile -fshort-enums # of a file that it cannot read abidiff says that nothing differs
! is_the_same || fail "abidiff does not notice that enumerations are short: is $reference whole?"
echo "abi: the types of $(wc -l <"$work/names") functions are those of $number"
