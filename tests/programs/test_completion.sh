#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Completion in bash offers what a program's --help lists, and nothing where none of that can stand.
#   test_completion.sh COMPLETION TUTTI_RUN [TUTTI_BENCH]
set -euo pipefail
# shellcheck disable=SC1090
source "$1"
run=$2 bench=${3-}

# The last of the words is completed.
expect() {
	local expected=$1
	shift
	COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
	_tutti "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
	[ "${COMPREPLY[*]-}" = "$expected" ] || {
		printf 'completion of "%s": found "%s", expected "%s"\n' "$*" "${COMPREPLY[*]-}" "$expected"
		exit 1
	}
}

expect --min-ranks "$run" --min
expect --restart "$run" --re
expect --no-label "$run" --no-l
expect "" "$run" --absent
expect "" "$run" prog
expect "" "$run" -n 2 prog
expect "share core numa none" "$run" --bind ""
expect numa "$run" -n 2 -b nu
expect core "$run" --bind = co
expect "share core numa none" "$run" --bind =
expect "" "$run" --env co
expect "" "$run" core
# the program of the ranks, without the package bash-completion
expect --restart "$run" -n 2 -- "$run" -n 3 --rest
expect "share core numa none" "$run" -n 2 -- "$run" --bind ""
expect "" "$run" -n 2 -- cat --ra
COMP_WORDS=("$run" -- tes) COMP_CWORD=2
_tutti "$run" tes --
[[ " ${COMPREPLY[*]} " == *" test "* ]] || { echo "no command is offered after --"; exit 1; }
# with it
_command_offset() { COMPREPLY=("offset $1"); }
expect "offset 4" "$run" -n 2 -- cat --ra
if [ "$bench" ]; then
	expect "all all_reduce all_gather all_to_all" "$bench" al
	expect "all latency bandwidth init waiting all_reduce broadcast reduce reduce_scatter all_gather gather scatter all_to_all scan exscan barrier put get put_bandwidth put_signal fetch_add" \
		"$bench" -n 3 ""
	expect "" "$bench" --op ""
	expect --tune "$bench" all --tu
fi
complete -p tutti-run | grep -q -- '-F _tutti' || { echo "nothing completes tutti-run"; exit 1; }
