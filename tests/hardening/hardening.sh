#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The library and the programs are compiled as Debian hardens its packages: position independent, relocations read-only
# once all symbols are bound, no executable stack, stack protector, checked versions of the C library's functions.
#
#   hardening.sh FILE…
set -euo pipefail
failed=0

complain() {
	echo "hardening: $1: found $2, expected $3"
	failed=1
}

check() {
	local file=$1 segments dynamic imports
	segments=$(readelf -hlW "$file") dynamic=$(readelf -dW "$file") imports=$(nm -D --undefined-only "$file")
	grep -qE 'Type: +DYN' <<<"$segments" || complain "$file" "a fixed address" "position-independent code (-fPIE -pie)"
	grep -q GNU_RELRO <<<"$segments" || complain "$file" "no GNU_RELRO segment" "-z relro"
	grep -qE 'BIND_NOW|FLAGS.* NOW' <<<"$dynamic" || complain "$file" "symbols bound when first used" "all bound at the start (-z now)"
	grep -E 'GNU_STACK' <<<"$segments" | grep -q 'RW ' || complain "$file" "an executable stack" "-z noexecstack"
	grep -q __stack_chk_fail <<<"$imports" || complain "$file" "no use of __stack_chk_fail" "-fstack-protector-strong"
	grep -qE '__[a-z]+_chk(@|$)' <<<"$imports" || complain "$file" "no checked function such as __snprintf_chk" "_FORTIFY_SOURCE"
}

[ $# -gt 0 ] || {
	echo "hardening: found no file to look at"
	exit 1
}
for file; do
	check "$file"
done
echo "hardening: $# files"
exit $failed
