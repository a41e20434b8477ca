# SPDX-License-Identifier: BSD-3-Clause
# Completion of tutti's programs in bash. A program's own --help is the list of its options, of the policies of --bind and of
# what tutti-bench measures. All else is completed as a file name, and after tutti-run's program as that program does it.

# What follows an option in the program's help is a value: "--ranks N".
_tutti_takes_value() {
	grep -qE "^ +(-[a-zA-Z], )?$2 [A-Z0-9]|^ +$2, --[a-z-]+ [A-Z0-9]" <<<"$1"
}

_tutti_options() {
	grep -oE '(^|[ ,])--?[a-zA-Z][a-z-]*' <<<"$1" | tr -d ' ,' | sort -u
}

_tutti_policies() {
	sed '1,/^The policies of --bind/d' <<<"$1" | grep -oE '^  [a-z]+ ' | tr -d ' '
}

# "COLLECTIVE|ONE-SIDED|all|init" of the first line, with the lists below it in place of the first two words.
_tutti_measurements() {
	sed -n '1s/.* COLLECTIVE|ONE-SIDED|\([^ ]*\) .*/\1/p' <<<"$1" | tr '|' '\n'
	sed -n '/^  COLLECTIVE /,/^  ONE-SIDED /p' <<<"$1" | sed 's/COLLECTIVE//; s/ONE-SIDED//; s/:.*//' | tr -s ' ' '\n'
}

# Where in COMP_WORDS the program of tutti-run comes; fails where no -- is before the cursor.
_tutti_program_at() {
	local at

	for ((at = 1; at < COMP_CWORD; at++)); do
		[[ ${COMP_WORDS[at]} == -- ]] && echo $((at + 1)) && return
	done
	return 1
}

# As the program itself does it; by these functions alone where the package bash-completion is not there.
_tutti_command() {
	local at=$1

	if declare -F _command_offset >/dev/null; then
		_command_offset "$at"
	elif ((COMP_CWORD == at)); then
		mapfile -t COMPREPLY < <(compgen -c -- "$2")
	elif [[ ${COMP_WORDS[at]##*/} == tutti-* ]]; then
		COMP_WORDS=("${COMP_WORDS[@]:at}")
		COMP_CWORD=$((COMP_CWORD - at))
		_tutti "${COMP_WORDS[0]}" "$2" "$3"
	fi
}

_tutti() {
	local program=$1 word=$2 before=$3 name=${1##*/} help words='' at

	COMPREPLY=()
	if [[ $name == tutti-run ]] && at=$(_tutti_program_at); then
		_tutti_command "$at" "$word" "$before"
		return
	fi
	help=$("$program" --help 2>/dev/null) || return 0
	# --bind=core is three words
	if [[ $word == '=' ]]; then
		word=''
	elif [[ $before == '=' ]]; then
		before=${COMP_WORDS[COMP_CWORD - 2]}
	fi
	if [[ $before == -* ]] && _tutti_takes_value "$help" "$before"; then
		[[ $name == tutti-run && $before =~ ^(-b|--bind)$ ]] && words=$(_tutti_policies "$help")
	elif [[ $word == -* ]]; then
		words=$(_tutti_options "$help")
	elif [[ $name == tutti-bench ]]; then
		words=$(_tutti_measurements "$help")
	fi
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -o default -F _tutti tutti-run tutti-info tutti-trace tutti-bench tutti-train
