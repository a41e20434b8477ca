# SPDX-License-Identifier: BSD-3-Clause
# Completion of the options of tutti's programs in bash. A program's own --help is the list. What follows an option, or is
# none, is completed as a file name, and after tutti-run's program as that program does it.
_tutti() {
	local program=$1 word=$2 at

	COMPREPLY=()
	if [[ ${program##*/} == tutti-run ]]; then
		for ((at = 1; at < COMP_CWORD; at++)); do
			if [[ ${COMP_WORDS[at]} == -- ]]; then
				declare -F _command_offset >/dev/null && _command_offset $((at + 1))
				return
			fi
		done
	fi
	[[ $word == -* ]] || return 0
	mapfile -t COMPREPLY < <(compgen -W "$("$program" --help 2>/dev/null |
		grep -oE '(^|[ ,])--?[a-zA-Z][a-z-]*' | tr -d ' ,' | sort -u)" -- "$word")
}
complete -o default -F _tutti tutti-run tutti-info tutti-trace tutti-bench tutti-train
