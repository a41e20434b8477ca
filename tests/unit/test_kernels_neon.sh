#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Cross-compile the kernels and their tests for 64-bit Arm and run them in an emulator.
# usage: test_kernels_neon.sh SOURCE_ROOT
set -eu
root=$1
cc=aarch64-linux-gnu-gcc
qemu=$(command -v qemu-aarch64-static || command -v qemu-aarch64 || true)
if ! command -v $cc >/dev/null; then
	echo "skipped: found no $cc; install gcc-aarch64-linux-gnu and libc6-dev-arm64-cross"
	exit 77
fi
if [ -z "$qemu" ]; then
	echo "skipped: found no qemu-aarch64-static; install qemu-user-static"
	exit 77
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
flags="-std=c11 -O2 -D_GNU_SOURCE -DTT_KERNELS_NEON -ffp-contract=off -Wall -Wextra
	-Wno-unused-parameter -Wno-missing-field-initializers -Werror -I$root/include -I$root/src/spi -I$root/src/header -I$root/src/spelling -I$root/src/text -DTUTTI_VERSION=\"0\""
for file in kernels/c kernels/neon kernels/dispatch os/log os/file header/narrow header/names spelling/nearest text/printable; do
	$cc $flags -c "$root/src/$file.c" -o "$dir/$(basename "$file").o"
done
for name in test_kernels test_kernels_narrow test_kernels_reference test_kernels_choice; do
	$cc $flags -I"$root/src" -I"$root/tests/unit/cross" "$root/tests/unit/$name.c" \
		"$dir"/*.o -static -pthread -lm -o "$dir/$name"
	echo "$name:"
	"$qemu" "$dir/$name" >"$dir/out" || {
		cat "$dir/out"
		exit 1
	}
	cat "$dir/out"
done
