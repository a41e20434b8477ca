#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Starts the program `launched` by the launchers people have and checks that its ranks found each other.
#
#   launchers.sh CASE LAUNCHED [TUTTI_RUN]
#
# Ends with 0, with 1 and a sentence, or with 77 and the reason where the case cannot be run here. "Hosts"
# are network namespaces on a bridge in one more namespace; two ranks live in each. Everything made is gone in the end.
set -u

case=$1
launched=$2
tutti_run=${3:-}
self=$(readlink -f "$0")
prefix=tutti-$$
work=
namespaces=()
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

skip() {
	echo "skipped: $*"
	exit 77
}

fail() {
	echo "failed: $*"
	[ -z "$work" ] || sed 's/^/  /' "$work"/*.txt
	exit 1
}

clean() {
	for namespace in "${namespaces[@]}"; do
		ip netns del "$namespace"
	done
	[ -z "$work" ] || rm -r "$work"
}

# ---------------------------------------------------------------- launchers

need_open_mpi() {
	local found
	found=$(command -v mpirun.openmpi || command -v mpirun) || skip "mpirun is not installed"
	"$found" --version | grep -Eq "Open MPI|OpenRTE" || skip "$found is not Open MPI's"
	mpirun=("$found" --oversubscribe)
}

need_hydra() {
	hydra=$(command -v mpiexec.hydra) || skip "mpiexec.hydra is not installed"
}

need_tutti_run() {
	[ -x "$tutti_run" ] || skip "tutti-run is not built"
}

# as torchrun does it: torch LOCAL_RANKS RANK ADDRESS PORT COMMAND...
torch() {
	local locals=$1 rank=$2 address=$3 port=$4
	shift 4
	RANK=$rank WORLD_SIZE=4 LOCAL_RANK=$((rank % locals)) LOCAL_WORLD_SIZE=$locals \
		MASTER_ADDR=$address MASTER_PORT=$port TORCHELASTIC_USE_AGENT_STORE=True \
		TORCHELASTIC_RUN_ID=$prefix TORCHELASTIC_RESTART_COUNT=0 exec "$@"
}

# A port below those the kernel gives out, at which nobody listens (nor at the next one, which the ranks use).
free_port() {
	local port
	for port in $(shuf -i 20000-29999 -n 50); do
		if ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null &&
			! (exec 3<>"/dev/tcp/127.0.0.1/$((port + 1))") 2>/dev/null; then
			echo "$port"
			return
		fi
	done
}

# ---------------------------------------------------------------- running and checking

# run NAME COMMAND...: its output goes to NAME.txt, its temporary files to a directory of its own, as Open MPI's
# mpirun fails where another one makes the directory of sessions at the same time
run() {
	local name=$1
	shift
	mkdir "$work/$name.tmp"
	TMPDIR=$work/$name.tmp TUTTI_LOG=warn,comm:info timeout 60 "$@" >"$work/$name.txt" 2>&1
}

# check NAME SIZE LOCALS LAUNCHER [TIMES]: every rank of SIZE has the sum, as often as said; a host has LOCALS of
# them; each says that LAUNCHER started it.
check() {
	local text=$work/$1.txt size=$2 locals=$3 launcher=$4 times=${5:-1} rank
	for ((rank = 0; rank < size; rank++)); do
		local line="rank $rank of $size, local $((rank % locals)) of $locals, has the sum"
		[ "$(grep -c "$line" "$text")" = "$times" ] ||
			fail "\"$line\" is not $times times in the output of $1"
		grep -q "started by $launcher as rank $rank of $size" "$text" ||
			fail "\"started by $launcher as rank $rank of $size\" is not in the output of $1"
	done
}

# ---------------------------------------------------------------- hosts

# Host h has the addresses 198.18.0.(h+1) and fd7a:7474::(h+1), on eth0.
make_hosts() {
	local host hub=$prefix-hub
	[ "$(id -u)" = 0 ] || skip "network namespaces need root"
	command -v ip >/dev/null || skip "ip (iproute2) is not installed"
	ip netns add "$hub" 2>/dev/null || skip "this machine lets nobody make network namespaces"
	namespaces+=("$hub")
	ip -n "$hub" link add bridge type bridge || skip "this kernel has no bridges"
	ip -n "$hub" link set bridge up
	for host in 0 1; do
		ip netns add "$prefix-$host" || fail "make the namespace of host $host"
		namespaces+=("$prefix-$host")
		ip -n "$hub" link add "port$host" type veth peer name eth0 netns "$prefix-$host" &&
			ip -n "$hub" link set "port$host" master bridge up &&
			ip -n "$prefix-$host" link set lo up &&
			ip -n "$prefix-$host" addr add "198.18.0.$((host + 1))/24" dev eth0 &&
			ip -n "$prefix-$host" addr add "fd7a:7474::$((host + 1))/64" dev eth0 nodad &&
			ip -n "$prefix-$host" link set eth0 up && continue
		fail "connect host $host"
	done
}

# What ranks of several hosts need: a key in a file that nobody else can read.
make_key() {
	(umask 077 && od -An -vtx1 -N32 /dev/urandom | tr -d ' \n' >"$work/key")
	export TUTTI_KEY_FILE=$work/key
}

# Runs in place of a launched program: goes to the host of its rank.
enter() {
	local rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-$RANK}}
	exec ip netns exec "$HOSTS-$((rank / 2))" "$launched"
}

# ---------------------------------------------------------------- cases

case_alone() {
	run alone "$launched" || fail "launched ended with $?"
	grep -q "rank 0 of 1, local 0 of 1, has the sum" "$work/alone.txt" ||
		fail "a process without a launcher is not alone"
}

case_mpirun() {
	need_open_mpi
	run mpirun "${mpirun[@]}" -n 4 "$launched" || fail "mpirun ended with $?"
	check mpirun 4 4 "Open MPI"
}

# Several communicators of one job, one right after the other, when rank 0 may still host the meeting before.
case_mpirun_again() {
	need_open_mpi
	run mpirun "${mpirun[@]}" -n 4 "$launched" 16 || fail "mpirun ended with $?"
	check mpirun 4 4 "Open MPI" 16
}

case_mpirun_two_jobs() {
	local pid
	need_open_mpi
	run first "${mpirun[@]}" -n 3 "$launched" &
	pid=$!
	run second "${mpirun[@]}" -n 4 "$launched" || fail "the second mpirun ended with $?"
	wait $pid || fail "the first mpirun ended with $?"
	check first 3 3 "Open MPI"
	check second 4 4 "Open MPI"
}

case_mpirun_hosts() {
	need_open_mpi
	make_hosts
	HOSTS=$prefix TUTTI_STORE=tcp://198.18.0.1:29500 \
		run keyless "${mpirun[@]}" -n 4 "$self" enter "$launched" && fail "the hosts met without a key"
	grep -q "give all ranks the same TUTTI_KEY or TUTTI_KEY_FILE" "$work/keyless.txt" ||
		fail "TUTTI_KEY was not named"
	make_key
	HOSTS=$prefix TUTTI_STORE=tcp://198.18.0.1:29500 \
		run mpirun "${mpirun[@]}" -n 4 "$self" enter "$launched" || fail "mpirun ended with $?"
	check mpirun 4 2 "Open MPI"
}

case_hydra() {
	need_hydra
	run hydra "$hydra" -n 4 "$launched" || fail "mpiexec.hydra ended with $?"
	check hydra 4 4 Hydra
}

# Programs one after another in one job, with a shell between them and Hydra.
case_hydra_shell() {
	need_hydra
	run hydra "$hydra" -n 3 sh -c "'$launched' && '$launched' 2; exit \$?" ||
		fail "mpiexec.hydra ended with $?"
	check hydra 3 3 Hydra 3
}

case_hydra_hosts() {
	need_hydra
	make_hosts
	make_key
	HOSTS=$prefix TUTTI_STORE="tcp://[fd7a:7474::1]:29500" \
		run hydra "$hydra" -n 4 "$self" enter "$launched" || fail "mpiexec.hydra ended with $?"
	check hydra 4 2 Hydra
}

# Two proxies, as on two hosts: nothing says where to meet, so the ranks must say what to do.
case_hydra_without_store() {
	need_hydra
	run hydra "$hydra" -launcher fork -hosts 127.0.0.1:1,localhost:1 -n 2 "$launched" &&
		fail "the ranks met without a place to meet"
	grep -q "such as TUTTI_STORE=tcp://" "$work/hydra.txt" || fail "TUTTI_STORE was not named"
}

case_torchrun() {
	local port rank pids=()
	port=$(free_port)
	[ -n "$port" ] || skip "no free port"
	for rank in 0 1 2 3; do
		(torch 4 $rank 127.0.0.1 "$port" env TUTTI_LOG=warn,comm:info timeout 60 "$launched") \
			>"$work/torch$rank.txt" 2>&1 &
		pids+=($!)
	done
	for rank in 0 1 2 3; do
		wait "${pids[$rank]}" || fail "rank $rank ended with $?"
	done
	cat "$work"/torch?.txt >"$work/all.txt"
	check all 4 4 torchrun
}

case_torchrun_hosts() {
	local rank pids=()
	make_hosts
	make_key
	for rank in 3 2 1 0; do
		(HOSTS=$prefix torch 2 $rank 198.18.0.1 29500 env TUTTI_LOG=warn,comm:info \
			timeout 60 "$self" enter "$launched") >"$work/torch$rank.txt" 2>&1 &
		pids+=($!)
	done
	for rank in 0 1 2 3; do
		wait "${pids[$rank]}" || fail "rank $((3 - rank)) ended with $?"
	done
	cat "$work"/torch?.txt >"$work/all.txt"
	check all 4 2 torchrun
}

case_tutti_run() {
	need_tutti_run
	run tutti_run "$tutti_run" -n 4 -- "$launched" || fail "tutti-run ended with $?"
	check tutti_run 4 4 tutti-run
}

# The launcher's store outlives the programs: what one leaves there must not be taken for the next one's.
case_tutti_run_again() {
	need_tutti_run
	run tutti_run "$tutti_run" -n 3 -- sh -c "'$launched' 2 && '$launched'; exit \$?" ||
		fail "tutti-run ended with $?"
	check tutti_run 3 3 tutti-run 3
}

# The variables of an outer launcher are inherited, and must not count.
case_tutti_run_in_mpirun() {
	need_tutti_run
	need_open_mpi
	run tutti_run "${mpirun[@]}" -n 1 "$tutti_run" -n 3 -- "$launched" || fail "mpirun ended with $?"
	check tutti_run 3 3 tutti-run
}

# In a directory that the ranks use twice, which is a store that outlives them.
case_by_hand() {
	local time rank pids
	for time in 1 2; do
		pids=()
		for rank in 0 1 2; do
			TUTTI_RANK=$rank TUTTI_SIZE=3 TUTTI_STORE="file:$work/store" \
				run "hand$time$rank" "$launched" 2 &
			pids+=($!)
		done
		for rank in 0 1 2; do
			wait "${pids[$rank]}" || fail "rank $rank ended with $?"
		done
	done
	cat "$work"/hand??.txt >"$work/all.txt"
	check all 3 3 tutti-run 4
}

[ "$case" != enter ] || enter
trap clean EXIT
trap 'exit 1' HUP INT TERM
for name in $(compgen -e | grep -E '^(TUTTI|OMPI_COMM|PMI|PMIX|MPI|SLURM|TORCHELASTIC)_|^MASTER_|^(LOCAL_)?(RANK|WORLD_SIZE)$'); do
	unset "$name"
done
work=$(mktemp -d)
declare -F "case_$case" >/dev/null || fail "there is no case $case"
"case_$case"
echo "passed: $case"
