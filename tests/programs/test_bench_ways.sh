#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# bench/ways draws a picture, and refuses what it cannot draw: test_bench_ways.sh WAYS BUILD
set -euo pipefail
ways=$1 build=$2
command -v gnuplot >/dev/null || {
	printf 'skipped: gnuplot was not found\n'
	exit 77
}
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT

"$ways" --build "$build" "$directory" local >"$directory/out"
grep -q '^every_100  *2 local' "$directory/out"
grep -q 'Loss over bytes' "$directory/local.svg"
! "$ways" --build "$build" "$directory" nothing 2>"$directory/out" || exit 1
grep -q 'found the picture nothing; usage: bench/ways' "$directory/out"
! "$ways" --build "$directory" "$directory" 2>"$directory/out" || exit 1
grep -q 'found no tutti-run and tutti-train in' "$directory/out"
