#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Programs that were compiled with an earlier library of this ABI find the same types: what the headers declare is compared with
# what abi-NUMBER.h beside this script declares, which is made of those of the first version of that ABI (CONTRIBUTING.md). More may
# be there.
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
reference=$here/abi-$number.h
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
grep -q "^  version: \"$version\"$" "$source/conda/recipe.yaml" || fail "conda/recipe.yaml has another version, expected $version, as in meson.build"
of_header=$(sed -n 's/^#define TUTTI_VERSION_\(MAJOR\|MINOR\|PATCH\) \([0-9]*\).*/\2/p' "$source/include/tutti/tutti.h" | paste -s -d .)
[ "$of_header" = "$version" ] || fail "tutti.h has version $of_header (TUTTI_VERSION_…), expected $version, as in meson.build"
grep -q "^TUTTI_$number {" "$source/src/tutti.map" || fail "src/tutti.map has no node TUTTI_$number, expected that of version $version"
grep -q "^Package: libtutti$number$" "$source/debian/control" || fail "debian/control has no package libtutti$number, expected that of version $version"

# ---- the types

headers="tutti/tutti.h tutti/window.h tutti/cuda.h"
include() { # HEADER…
	printf '#include <%s>\n' "$@"
}
if [ -n "$write" ]; then
	mkdir "$work/none"
	touch "$work/none/stddef.h" "$work/none/stdint.h"
	{
		echo '/* SPDX-License-Identifier: BSD-3-Clause */'
		echo "/* What the headers of the first version of ABI $number declare: made by abi.sh --write, and left as it is. */"
		include stddef.h stdint.h
		# shellcheck disable=SC2086
		include $headers | cc -E -P -U__GNUC__ -nostdinc -I "$work/none" -I "$source/include" -
	} | clang-format --assume-filename="$reference" >"$work/reference"
	cp "$work/reference" "$reference"
	exit 0
fi
if ! command -v abidiff >/dev/null; then
	echo "skipped: abidiff is not installed (Debian 12: abigail-tools)"
	exit 77
fi
[ -r "$reference" ] || fail "there is no $reference, expected it since the first version of an ABI: tests/exports/abi.sh --write . $version $number"
grep -o 'tutti_[a-z0-9_]* *(' "$reference" | tr -d ' (' >"$work/names"
[ -s "$work/names" ] || fail "$reference declares no function: is it whole?"
# NAME OPTION… <INCLUDES. A variable for each function of the reference, whose debug information has the function's type, and so all
# types that programs see.
compile() {
	local name=$1
	shift
	{
		cat
		sed 's/.*/__typeof__(\&&) abi_&;/' "$work/names"
	} >"$work/$name.c"
	cc -std=gnu11 -g -shared -fPIC "$@" "$work/$name.c" -o "$work/$name.so" || fail "a function of version $number is not declared any more (above)"
}
is_the_same() {
	abidiff "$work/reference.so" "$work/abi.so" >"$work/out" 2>&1
}
include "$reference" | compile reference
# shellcheck disable=SC2086
include $headers | compile abi -I "$source/include"
if ! is_the_same; then
	cat "$work/out"
	fail "programs of version $number would find other types (above); go back, or raise the second number of the version"
fi
# shellcheck disable=SC2086
include $headers | compile abi -I "$source/include" -fshort-enums # of a file that it cannot read abidiff says that nothing differs
! is_the_same || fail "abidiff does not notice that enumerations are short: is there no debug information?"
echo "abi: the types of $(wc -l <"$work/names") functions are those of $number"
