#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A manual page has all the words of a program's --help in their order, and lists the options and nothing else but what is
# named here: help2man takes what is indented otherwise for an item of a list, or for no text at all.
#   test_manual.sh PAGE PROGRAM [ITEM]...
set -euo pipefail
page=$1 program=$2
shift 2

# The text of a page without its marks.
plain() {
	sed -E 's/\\f.//g; s/\\[,\/]//g; s/\\-/-/g; s/\\e/\\/g; s/\\&//g'
}

words() {
	tr -s ' \n' '\n\n' | sed '/^$/d'
}

compare() {
	diff <(printf '%s\n' "$2") <(printf '%s\n' "$3") >/dev/null && return
	printf '%s: %s: expected (<) and found (>)\n' "${page##*/}" "$1"
	diff <(printf '%s\n' "$2") <(printf '%s\n' "$3")
	exit 1
}

compare 'words' "$("$program" --help | sed 1d | words)" \
	"$(sed '1,/^\.SH DESCRIPTION/d' "$page" | grep -v '^\.' | plain | words)"
compare 'items that are no options' "$(printf '%s\n' "$@")" \
	"$(sed -n '/^\.TP/{n;p}' "$page" | plain | grep -v '^-' || true)"
options=$("$program" --help | grep -cE '^ {2,6}-')
compare 'options' "$options" "$(sed -n '/^\.TP/{n;p}' "$page" | plain | grep -c '^-')"
