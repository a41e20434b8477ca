#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Completion in bash offers what a program's --help lists, and nothing where no option begins.
#   test_completion.sh COMPLETION PROGRAM
set -euo pipefail
# shellcheck disable=SC1090
source "$1"
program=$2

expect() {
	local word=$1 expected=$2
	COMP_WORDS=("$program" "$word") COMP_CWORD=1
	_tutti "$program" "$word" "$program"
	[ "${COMPREPLY[*]-}" = "$expected" ] || {
		printf 'completion of "%s": found "%s", expected "%s"\n' "$word" "${COMPREPLY[*]-}" "$expected"
		exit 1
	}
}

expect --min --min-ranks
expect --re --restart
expect --no-l --no-label
expect --absent ""
expect prog ""
complete -p tutti-run | grep -q -- '-F _tutti' || { echo "nothing completes tutti-run"; exit 1; }
