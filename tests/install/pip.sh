#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# `pip install .` compiles kernels of GPUs, which takes ten minutes, where that is asked for, and not wherever CUDA's compiler is: pip.sh SOURCE
set -euo pipefail
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

printf '#!/bin/sh\nexit 0\n' >"$work/nvcc"
chmod +x "$work/nvcc"
export PATH=$work:$PATH
mapfile -t arguments < <(python3 -c 'import sys, tomllib
print(*tomllib.load(open(sys.argv[1], "rb"))["tool"]["meson-python"]["args"]["setup"], sep="\n")' "$source/pyproject.toml")

# kernels EXPECTED SETUP…: how many targets make kernels
kernels() {
	local expected=$1 found
	shift
	meson setup "$@" "${arguments[@]}" >"$work/log" || { cat "$work/log" && exit 1; }
	found=$(meson introspect --targets "$work/build" | grep -c '"name": "cuda_image"' || true)
	[ "$found" = "$expected" ] || {
		printf 'pip: %s targets make kernels of GPUs with %s, expected %s\n' "$found" "${arguments[*]}" "$expected"
		exit 1
	}
}

kernels 0 "$work/build" "$source"
arguments+=(-Dcuda=enabled) # pip install . -Csetup-args=-Dcuda=enabled
kernels 1 --reconfigure "$work/build" "$source"
