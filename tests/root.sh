# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Debian roots that have nothing, for tests that source this file: they are made for a run, use the machine's kernel and
# network, and are removed afterwards, with all processes and mounts.
release=bookworm
work=

skip() {
	printf 'bare: %s\n' "$*"
	exit 77
}

# need CHECKOUT GROUP...: all that the roots of a test need, or it is skipped; $work is a directory of its own
need() {
	local checkout=$1 installed
	shift
	[ "$(id -u)" -eq 0 ] || skip "the user is not root; mounting and changing the root directory need root"
	unshare --mount --pid --ipc --fork true 2>/dev/null ||
		skip "the kernel refuses new mount, process and IPC namespaces (unshare)"
	installed=$("$checkout/.ci/install" "$@" 2>&1) || {
		printf '%s\n' "$installed"
		skip "what makes the root cannot be installed (the reason is above)"
	}
	work=$(mktemp -d "${TMPDIR:-/var/tmp}/tutti-bare.XXXXXX")
	trap 'rm -rf --one-file-system "$work"' EXIT
}

# make_root ROOT [OPTION...]: Debian's essential packages and apt alone, and what mmdebstrap's options add
make_root() {
	local root=$1
	shift
	printf 'bare: making a root of Debian %s by mmdebstrap\n' $release
	mmdebstrap --quiet --mode=root --variant=apt "$@" $release "$root" >"$work/log" 2>&1 || {
		tail -n 20 "$work/log"
		skip "mmdebstrap failed (its last lines are above)"
	}
}

# copy_checkout CHECKOUT TO: without its build directories
copy_checkout() {
	mkdir -p "$2"
	tar -C "$1" --exclude='./build*' --exclude=./demo-results --exclude=./.git -c . | tar -C "$2" -x
}

# in_root ROOT COMMANDS [ARGUMENT...]: for its shell, in namespaces of their own
in_root() {
	# shellcheck disable=SC2016 # for the shell in the new namespaces
	unshare --mount --pid --ipc --fork --kill-child --propagation private bash -euc '
		root=$1
		shift
		mount -t proc proc "$root/proc"
		mount --rbind /sys "$root/sys"
		mount --rbind /dev "$root/dev"
		mount -t tmpfs tmpfs "$root/dev/shm"
		exec chroot "$root" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
			DEBIAN_FRONTEND=noninteractive bash -euc "$1" - "${@:2}"
	' - "$@" </dev/null
}
