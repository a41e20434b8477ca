#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# What is installed is enough: a program compiled with what pkg-config says, shared and static, runs with two ranks.
#
#   install.sh BUILD EXAMPLE.c EXPECTED
set -euo pipefail
build=$1 example=$2 expected=$3
if grep -qE '__(asan|tsan)_init' "$build/libtutti.so"; then
	echo "skipped: libtutti was built with a sanitizer, which a plain program does not have"
	exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

meson install -C "$build" --no-rebuild --destdir "$work/root" >"$work/log" 2>&1 || {
	cat "$work/log"
	exit 1
}
pc=$(find "$work/root" -name tutti.pc)
[ -n "$pc" ] || {
	echo "install: no tutti.pc was installed"
	exit 1
}
# what static programs need besides is where it always is
export PKG_CONFIG_LIBDIR=${pc%/*}:$(pkg-config --variable=pc_path pkg-config) PKG_CONFIG_SYSROOT_DIR=$work/root PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 \
	PKG_CONFIG_ALLOW_SYSTEM_LIBS=1
libraries=$(dirname "$(find "$work/root" -name 'libtutti.so')")

# shellcheck disable=SC2046
cc -std=c11 -Wall -Wextra -Werror "$example" -o "$work/shared" $(pkg-config --cflags --libs tutti)
# the C library's own warnings about getaddrinfo in static programs are no errors
# shellcheck disable=SC2046
cc -std=c11 "$example" -o "$work/static" -static $(pkg-config --cflags --libs --static tutti) 2>"$work/warnings" || {
	cat "$work/warnings"
	exit 1
}

ldd "$work/shared" >"$work/needed"
grep -q libtutti.so.0 "$work/needed" || {
	echo "install: the program does not need libtutti.so.0"
	exit 1
}
if ldd "$work/static" >/dev/null 2>&1; then
	echo "install: the static program needs shared libraries"
	exit 1
fi

run() {
	local program=$1 rank pids=() ended=0
	for rank in 0 1; do
		LD_LIBRARY_PATH=$libraries TUTTI_RANK=$rank TUTTI_SIZE=2 TUTTI_LOCAL_RANK=$rank TUTTI_LOCAL_SIZE=2 \
			TUTTI_JOB=install-$$-${program##*/} TUTTI_TIMEOUT=20 "$program" >"$work/out-$rank" 2>&1 &
		pids+=($!)
	done
	for rank in 0 1; do
		wait "${pids[$rank]}" || ended=1
	done
	if [ $ended -ne 0 ] || ! grep -q "$expected" "$work"/out-*; then
		echo "install: ${program##*/} program, expected \"$expected\" of two ranks:"
		cat "$work"/out-*
		exit 1
	fi
}
run "$work/shared"
run "$work/static"
echo "install: shared and static programs ran with two ranks"
