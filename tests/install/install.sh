#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# What is installed is enough, wherever it is moved to: the programs run and find their library, and a program compiled
# with what pkg-config and CMake's package say runs with two ranks, shared and static. Nothing is installed into the checkout.
#
#   install.sh SOURCE BUILD EXAMPLE EXPECTED
set -euo pipefail
source=$1 build=$2 example=$3 expected=$4
if grep -qE '__(asan|tsan)_init' "$build/libtutti.so"; then
	echo "skipped: libtutti was built with a sanitizer, which a plain program does not have"
	exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset LD_LIBRARY_PATH DESTDIR

fail() {
	printf 'install: %s\n' "$*"
	exit 1
}

# ---- into the checkout: refused, before anything is looked for and after a DESTDIR

refuses() {
	local status=0
	"$@" >"$work/log" 2>&1 || status=$?
	[ $status -ne 0 ] || fail "\"$*\" succeeded, expected a refusal"
	grep -q "in the source directory.*expected a place outside it" "$work/log" ||
		fail "\"$*\" failed, but not for its place: $(cat "$work/log")"
}

headers=$(sha256sum "$source"/include/tutti/*.h)
ln -s "$source" "$work/link"
for prefix in "$source" "$work/link" "$source/src"; do
	refuses meson setup "$work/refused" "$source" --prefix "$prefix"
done
for option in includedir libdir mandir; do # from the root on, whatever the prefix
	refuses meson setup "$work/refused" "$source" --prefix "$work/elsewhere" "--$option=$source/include"
done
refuses env MESON_INSTALL_DESTDIR_PREFIX="$work/elsewhere" DESTDIR="$work/link" "$source/tools/install/outside" \
	"$source" "$build" /usr /include
mkdir "$work/home"
ln -s "$source" "$work/home/include" # a directory below the prefix leads there
refuses meson setup "$work/refused" "$source" --prefix "$work/home"
refuses env MESON_INSTALL_DESTDIR_PREFIX="$work/link" "$source/tools/install/outside" "$source" "$build" /usr bin lib
"$source/tools/install/outside" "$source" "$build" "$work/elsewhere" bin lib include share ||
	fail "a place outside the source was refused"
# Meson deletes what it is about to replace: where that can be a file of the source, a copy has to be what is installed
meson introspect --installed "$build" | jq -r 'keys[]' | while read -r from; do
	case $from in "$source"/include/*) fail "$from is installed from the source itself" ;; esac
done
[ "$headers" = "$(sha256sum "$source"/include/tutti/*.h)" ] || fail "the headers of the source have changed"

# ---- elsewhere: all that is needed, also after it was moved

meson install -C "$build" --no-rebuild --destdir "$work/first" >"$work/log" 2>&1 || {
	cat "$work/log"
	exit 1
}
mv "$work/first" "$work/moved"
prefix=$work/moved$(meson introspect --buildoptions "$build" | jq -r '.[] | select(.name == "prefix").value')
for file in include/tutti/tutti.h include/tutti/cuda.h share/doc/tutti/LICENSE share/doc/tutti/README.md \
	share/doc/tutti/docs/reference/environment.md share/doc/tutti/examples/{hello,overlap,threads}.c; do
	[ -f "$prefix/$file" ] || fail "no $file was installed"
done
for program in "$prefix"/bin/*; do
	"$program" --version >"$work/out" 2>&1 || fail "${program##*/} --version failed: $(cat "$work/out")"
	grep -q "${program##*/}" "$prefix/share/bash-completion/completions/${program##*/}" ||
		fail "${program##*/} has no completion"
	! command -v help2man >/dev/null || grep -q 'SH SYNOPSIS' "$prefix/share/man/man1/${program##*/}.1" ||
		fail "${program##*/} has no manual page"
done

pc=$(find "$prefix" -name tutti.pc)
[ -n "$pc" ] || fail "no tutti.pc was installed"
libraries=$(dirname "$(find "$prefix" -name 'libtutti.so')")
# what static programs need besides is where it always is
export PKG_CONFIG_LIBDIR=${pc%/*}:$(pkg-config --variable=pc_path pkg-config) PKG_CONFIG_SYSROOT_DIR=$work/moved PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 \
	PKG_CONFIG_ALLOW_SYSTEM_LIBS=1
named=$(pkg-config --print-requires-private tutti | sed 's/ .*//' | sort | paste -sd' ')
[ "$named" = "libcrypto libssl" ] || fail "tutti.pc requires \"$named\", expected libcrypto and libssl"
named=$(sed -n 's/^Libs.private: *//p' "$pc")
[ "$named" = "-pthread" ] || fail "tutti.pc has the private libraries \"$named\", expected -pthread"

# shellcheck disable=SC2046
cc -std=c11 -Wall -Wextra -Werror "$prefix/share/doc/tutti/examples/$example.c" -o "$work/shared" $(pkg-config --cflags --libs tutti) \
	-Wl,-rpath,"$libraries"
# the C library's own warnings about getaddrinfo in static programs are no errors
# shellcheck disable=SC2046
cc -std=c11 "$prefix/share/doc/tutti/examples/$example.c" -o "$work/static" -static $(pkg-config --cflags --libs --static tutti) \
	2>"$work/warnings" || {
	cat "$work/warnings"
	exit 1
}

# ---- by CMake

mkdir "$work/cmake"
cat >"$work/cmake/CMakeLists.txt" <<-END
	cmake_minimum_required(VERSION 3.18)
	project(hello C)
	find_package(tutti 0.2 REQUIRED)
	add_executable(by_cmake "$prefix/share/doc/tutti/examples/$example.c")
	target_link_libraries(by_cmake tutti::tutti)
	add_executable(by_cmake_static "$prefix/share/doc/tutti/examples/$example.c")
	target_link_libraries(by_cmake_static tutti::static)
	find_package(tutti 0.1 QUIET)
	if(tutti_FOUND)
	  message(FATAL_ERROR "0.1 was found")
	endif()
	find_package(tutti 1.0 QUIET)
	if(tutti_FOUND)
	  message(FATAL_ERROR "1.0 was found")
	endif()
END
if command -v cmake >/dev/null; then
	{ cmake -G Ninja -S "$work/cmake" -B "$work/cmake/build" -DCMAKE_PREFIX_PATH="$prefix" && cmake --build "$work/cmake/build"; } \
		>"$work/log" 2>&1 || fail "CMake does not build with what is installed: $(cat "$work/log")"
fi

ldd "$work/shared" >"$work/needed"
grep -q "libtutti.so.0.2 => $libraries" "$work/needed" || fail "the program does not need libtutti.so.0.2 of $libraries: $(cat "$work/needed")"
if ldd "$work/static" >/dev/null 2>&1; then
	fail "the static program needs shared libraries"
fi

run() {
	local program=$1 rank pids=() ended=0
	for rank in 0 1; do
		TUTTI_RANK=$rank TUTTI_SIZE=2 TUTTI_LOCAL_RANK=$rank TUTTI_LOCAL_SIZE=2 \
			TUTTI_JOB=install-$$-${program##*/} TUTTI_TIMEOUT=20 "$program" >"$work/out-$rank" 2>&1 &
		pids+=($!)
	done
	for rank in 0 1; do
		wait "${pids[$rank]}" || ended=1
	done
	if [ $ended -ne 0 ] || ! grep -q "$expected" "$work"/out-*; then
		echo "install: ${program##*/} program, expected \"$expected\" of two ranks:"
		cat "$work"/out-*
		exit 1
	fi
}
run "$work/shared"
run "$work/static"
for program in "$work"/cmake/build/by_cmake{,_static}; do
	[ ! -x "$program" ] || run "$program"
done

# the installed launcher, trainer and data
if [ -x "$prefix/bin/tutti-run" ] && [ -x "$prefix/bin/tutti-train" ]; then
	TUTTI_TIMEOUT=20 "$prefix/bin/tutti-run" -n 2 -- "$prefix/bin/tutti-train" \
		--data "$prefix/share/tutti/data/digits.csv.gz" --epochs 1 --json "$work/log.json" >"$work/out" 2>&1 ||
		fail "the installed tutti-train does not train on the installed data: $(cat "$work/out")"
	"$prefix/bin/tutti-train" report "$work/log.json" >"$work/out" 2>&1 && grep -q '^log  *2 allreduce' "$work/out" ||
		fail "the installed tutti-train does not show a log: $(cat "$work/out")"
fi
echo "install: shared and static programs ran with two ranks, and the programs where they were moved to"
