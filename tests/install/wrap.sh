#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A program that has the sources as a subproject of Meson, by a wrap, builds and runs: wrap.sh SOURCE EXAMPLE EXPECTED
set -euo pipefail
source=$1 example=$2 expected=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir "$work/subprojects"
ln -s "$source" "$work/subprojects/tutti"
printf '[wrap-file]\ndirectory = tutti\n\n[provide]\ndependency_names = tutti\n' >"$work/subprojects/tutti.wrap"
cat >"$work/meson.build" <<-END
	project('hello', 'c')
	executable('hello', 'hello.c', dependencies: dependency('tutti', version: '>=0.2'))
END
cp "$source/examples/$example.c" "$work/hello.c"
meson setup "$work/build" "$work" --force-fallback-for tutti -Doptimization=0 -Dtutti:cuda=disabled
ninja -C "$work/build" hello
for rank in 0 1; do
	TUTTI_RANK=$rank TUTTI_SIZE=2 TUTTI_LOCAL_RANK=$rank TUTTI_LOCAL_SIZE=2 TUTTI_JOB=wrap-$$ TUTTI_TIMEOUT=20 "$work/build/hello" &
done >"$work/out"
wait -n
wait -n
grep "$expected" "$work/out" || {
	echo "wrap: found the lines below, expected \"$expected\" of two ranks"
	cat "$work/out"
	exit 1
}
