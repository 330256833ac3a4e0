#!/usr/bin/env bash
# Starts the trainer on several ranks: with srun inside a Slurm job, else with mpirun.
set -euo pipefail

# From the first line on: a notice that comes while this script prepares is kept for the ranks.
asked='' signalled=false child='' repeater='' started=0
# shellcheck disable=SC2317  # called by the traps
forward() {
    asked=$1 signalled=true
    if [[ $child ]]; then pass_on; fi
}
trap 'forward USR1' USR1 TERM
trap 'forward INT' INT

usage() {
    cat <<'END'
usage: jobs/run.sh [-n RANKS] [-c FILE] [-l LEVEL] [--launcher srun|mpirun] [ARG...]

  -n RANKS     processes in all, one per GPU. Default: the tasks of the Slurm job, else the GPUs of this machine, else 1
  -c FILE      the config; also --config FILE
  -l LEVEL     DEBUG, INFO, WARNING or ERROR; of train, eval, predict and bench buckets, loader and step
  --launcher   default: srun inside a Slurm job, mpirun elsewhere
  ARG...       the trainer's: key=value settings, or a command: predict --run runs/mine -o out.csv

Values may also stand in the option's own word: -n2, -n=2, --config=FILE.

  jobs/run.sh -n 2 -c jobs/mnist.yaml -l INFO train.epochs=1

SIGUSR1 and SIGTERM reach every rank as "save and stop"; in a batch job a run that stopped so (exit code 75) is requeued,
when the job may be (#SBATCH --requeue) and was not cancelled.

TUTTI_TRAINER          the program (default: build/trainer beside this folder, else trainer from PATH)
TUTTI_SRUN_OPTIONS     more options of srun
TUTTI_MPIRUN_OPTIONS   options of mpirun about mapping and binding, instead of this script's
END
}

say() { echo "run: $*" >&2; }
fail() {
    echo "error: jobs/run.sh: $*" >&2
    exit 2
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ranks='' config='' level='' launcher='' arguments=()
while (($#)); do
    case $1 in
        -n | -c | -l | --launcher | --config)
            (($# > 1)) || fail "$1 needs a value; see jobs/run.sh --help"
            # Mostly a variable that is not set; the built-in recipe, or as many ranks as there are GPUs, is not meant then.
            [[ $2 ]] || fail "$1 has an empty value; give one, or leave $1 out"
            case $1 in
                -n) ranks=$2 ;;
                -l) level=${2,,} ;;
                --launcher) launcher=$2 ;;
                *) config=$2 ;;
            esac
            shift 2
            ;;
        --launcher=* | --config=* | -[ncl]=*) set -- "${1%%=*}" "${1#*=}" "${@:2}" ;;
        -[ncl]*) set -- "${1::2}" "${1:2}" "${@:2}" ;;
        -h | --help) usage && exit 0 ;;
        *) arguments+=("$1") && shift ;;
    esac
done
[[ -z $ranks || $ranks =~ ^[1-9][0-9]*$ ]] || fail "-n $ranks: give the number of ranks, 1 or more"
[[ -z $level || $level =~ ^(debug|info|warning|error)$ ]] || fail "-l $level: give DEBUG, INFO, WARNING or ERROR"
[[ $launcher =~ ^(srun|mpirun|)$ ]] || fail "--launcher $launcher: give srun or mpirun"
# sbatch hands on the variables of a step that calls it. Whose step this is, the daemon above this script says.
in_step() {
    local pid=$$ title
    while ((pid > 1)); do
        title=$(2>/dev/null tr '\0' ' ' <"/proc/$pid/cmdline") || return 0
        case $title in
            slurmstepd:*.batch]* | slurmstepd:*.interactive]*) return 1 ;;
            slurmstepd:*) return 0 ;;
        esac
        pid=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$pid/status" 2>/dev/null) || return 0
    done
    return 0 # none is seen from here: the variables alone speak
}
if ((${SLURM_STEP_NUM_TASKS:-1} > 1)) && in_step; then
    fail "srun started this script ${SLURM_STEP_NUM_TASKS} times; start it once, without srun: it calls srun itself"
fi
if ((${SLURM_HET_SIZE:-1} > 1)); then
    fail "this job has ${SLURM_HET_SIZE} components (… : …), of which this script would use one; ask for tasks of one" \
        "kind, or start all components' tasks by hand: srun --mpi=pmix --wait=60 --het-group=0-$((SLURM_HET_SIZE - 1)) trainer …"
fi
# Of `sbatch --export=…` srun would leave out for the ranks what this script has, and what its modules have set.
unset SLURM_EXPORT_ENV
export PATH # with --export=NONE it is bash's own default, which mpirun's daemons and the ranks do not have

trainer=${TUTTI_TRAINER-}
if [[ -z $trainer ]]; then
    trainer=$here/../build/trainer
    if [[ ! -x $trainer ]]; then trainer=$(command -v trainer) || fail "no trainer: build it, or set TUTTI_TRAINER"; fi
fi

# A command, of one word or two (bench buckets), comes before its options.
program=("$trainer")
while [[ ${arguments[0]-} =~ ^[a-z]+$ ]]; do
    program+=("${arguments[0]}")
    arguments=("${arguments[@]:1}")
done
name=${program[*]:1}
[[ -z $config ]] || program+=(-c "$config")
program+=(${arguments[@]+"${arguments[@]}"})
case $level:$name in
    :*) ;;
    *: | *:train | *:eval | *:predict | *:"bench buckets" | *:"bench loader" | *:"bench step") program+=("run.log_level=$level") ;;
    *) say "-l: trainer $name has no log level" ;;
esac

if ((${SLURM_RESTART_COUNT:-0})) && [[ $name =~ ^(train)?$ ]]; then
    for word in ${arguments[@]+"${arguments[@]}"}; do
        run_dir=${word#run.dir=}
        if [[ $word == run.dir=* && ! -e ${run_dir/#\~\//$HOME/}/config.yaml ]]; then
            say "this job was restarted, and $run_dir holds no run: is it on a disk that all nodes share?"
        fi
    done
fi

in_slurm=false
if [[ ${SLURM_JOB_ID-} ]]; then in_slurm=true; fi
if [[ -z $launcher ]]; then
    if $in_slurm; then launcher=srun; else launcher=mpirun; fi
fi
if [[ -z $ranks ]]; then
    if $in_slurm; then
        ranks=${SLURM_NTASKS:-1}
    else
        ranks=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ') || ranks=1
    fi
fi

open_mpi=false
if [[ $launcher == srun ]]; then
    # --wait: a rank that dies must not leave the others waiting; ranks that end well end together.
    # --cpus-per-task: since Slurm 22.05 srun does not take it over from the job.
    # shellcheck disable=SC2206  # options are words
    command=(srun --mpi=pmix "--ntasks=$ranks" --kill-on-bad-exit=0 --wait=60
        ${SLURM_CPUS_PER_TASK:+--cpus-per-task=$SLURM_CPUS_PER_TASK} ${TUTTI_SRUN_OPTIONS-})
    # The step of `srun --pty bash` holds cores that the ranks would wait for without an end (--overlap: Slurm 20.11).
    if [[ ${SLURM_STEP_ID-} ]] && in_step && [[ $(srun --help 2>&1) == *--overlap* ]]; then command+=(--overlap); fi
else
    command=(mpirun -np "$ranks")
    if [[ $(mpirun --version 2>&1) == *"Open MPI"* ]]; then
        # Many containers forbid a process to read another's memory; without that single copy it works everywhere.
        # Quiet: else each code but 0 has two paragraphs of explanation, also 75. What that hides, this script says.
        open_mpi=true
        command+=(--quiet --mca btl_vader_single_copy_mechanism none)
        if ((EUID == 0)); then command+=(--allow-run-as-root); fi
        if [[ ${TUTTI_MPIRUN_OPTIONS-} ]]; then
            # shellcheck disable=SC2206  # options are words
            command+=($TUTTI_MPIRUN_OPTIONS)
        elif $in_slurm; then
            command+=(--map-by "slot:PE=${SLURM_CPUS_PER_TASK:-1}" --report-bindings)
        else
            # Not bound: the ranks share all cores (the trainer divides them), while mpirun's default is one each.
            command+=(--bind-to none)
            # mpirun itself knows best how many ranks it accepts: it counts cores, and minds cpusets.
            if ! "${command[@]}" true >/dev/null 2>&1 && [[ -z $asked ]]; then
                say "fewer than $ranks cores for mpirun: --oversubscribe"
                command+=(--oversubscribe)
            fi
        fi
    fi
fi
shown='' # to be pasted into a shell
for word in "${command[@]}" "${program[@]}"; do
    if [[ $word == *[[:space:]\"\'\\\$\`\*\?\;\&\|\<\>\(\)]* ]]; then word=$(printf %q "$word"); fi
    shown+=" $word"
done
say "${shown:1}"
in_batch=false
if [[ ${ENVIRONMENT-} == BATCH ]]; then in_batch=true; fi
if [[ $asked == INT ]]; then exit 130; fi
if ! $in_batch && [[ -z $asked && $launcher == srun ]]; then exec "${command[@]}" "${program[@]}"; fi

# A batch script is alone in hearing `--signal=B:…`, and with mpirun also in hearing scancel for this node's ranks. mpirun
# itself must not hear SIGTERM: its ranks would have a second until it kills them. SIGUSR1 it passes on. So it has a
# process group of its own, as `timeout` asks its whole group to end, and ends with this script.
with_us=(setpriv --pdeathsig TERM)
if ! "${with_us[@]}" true 2>/dev/null; then with_us=(); fi # util-linux of before 2.33
# Slurm's SIGTERM goes to all processes of a step, or of the job, so also to mpirun and to its daemons on other nodes. They
# are started with it blocked; the ranks they start hear it (Open MPI 4.1). Not before coreutils 8.31.
if $open_mpi && env --block-signal=TERM true 2>/dev/null; then
    with_us=(env --block-signal=TERM)
    if setpriv --pdeathsig INT true 2>/dev/null; then with_us+=(setpriv --pdeathsig INT); fi
    if $in_slurm; then export OMPI_MCA_orte_launch_agent=${OMPI_MCA_orte_launch_agent-env --block-signal=TERM orted}; fi
fi
if [[ -t 0 ]]; then exec </dev/null; fi # which only the terminal's own group can read; no rank does

# mpirun and srun drop a notice that comes before their ranks are there, or end by it; the program stands repeats.
# shellcheck disable=SC2317  # called by the traps, too
pass_on() {
    if [[ $asked == INT ]] || ((SECONDS - started > 1)); then kill "-$asked" "$child" 2>/dev/null || true; fi
    if [[ $asked != INT && ! $repeater ]]; then # `return` in a trap would end the whole script (bash 5.2)
        while :; do
            read -rt 2 <> <(:) || true # sleeps, without a process that could be left behind
            kill -USR1 "$child" 2>/dev/null || exit 0
        done &
        repeater=$!
    fi
}

# What a rank of Open MPI runs: the program, below a shell that tells what mpirun hides (who was killed, on any host) or
# loses (rank 0's exit code). The shell outlives SIGTERM, and says nothing of a program that this ended. It writes to the
# record only where it finds the token there: on another node that place in /proc is somebody else's.
# shellcheck disable=SC2016  # for the inner shell
rank_script='trap "" USR1; asked=; trap "asked=1" TERM INT HUP
rank=${OMPI_COMM_WORLD_RANK-} record=$1 token=$2 word=; shift 2
exec 3>&2 2>/dev/null # the shell would add words of its own: Killed
if [ "$rank" = 0 ] && [ -f "$record" ]; then read -r word <"$record"; fi
if [ "$word" != "$token" ]; then record=/dev/null; fi
echo began 1<>"$record"
(exec "$@" 2>&3 3>&-); code=$?
if [ "$code" -gt 128 ] && [ -z "$asked" ]; then
    echo "run: rank $rank on $(uname -n) was ended by signal $((code - 128)), $(kill -l "$code")" >&3
fi
echo "$code" 1<>"$record"
exit "$code"'

# The record of rank 0: a file without a name, so that it ends with this script, also by SIGKILL. It is written over its
# token, which is longer, so that it needs no room on a disk that is full by then.
open_record() {
    local file
    file=$(mktemp) || fail "no temporary file can be made; see TMPDIR"
    exec {record_fd}<>"$file"
    rm -f "$file"
    record=/proc/$$/fd/$record_fd token="run.sh $$ on $(uname -n) $RANDOM-$RANDOM-$RANDOM"
    # Where another process cannot read it (no room, or a /proc that hides it), nothing is concluded from what it holds.
    # shellcheck disable=SC2016  # for the inner shell
    if ! { echo "$token" >&"$record_fd" && /bin/sh -c 'read -r word <"$0" && [ "$word" = "$1" ]' "$record" "$token"; } 2>/dev/null; then
        record=/dev/null
    fi
}

state_of() { # PROCESS: its letter in /proc as `state`, nothing of one that is gone
    state=''
    { read -rd '' state <"/proc/$1/stat" || true; } 2>/dev/null
    state=${state##*) }
    state=${state::1}
}

# Whether mpirun looks as if it never came back from its end: rank 0 began on this machine, of mpirun's children (the ranks, and
# the srun or ssh that holds the daemons of other nodes) none lives, and mpirun sleeps in a lock. One that waits for ranks or
# daemons sleeps in a poll, one whose output nobody reads in a write. Where the kernel does not say what a process sleeps in, a
# child that has ended must still be there: an mpirun that hears anything at all takes notice of it at once.
looks_stuck() {
    local word='' sleeps_in='' file pids='' pid zombies=0 state
    {
        read -r word <"/proc/$BASHPID/fd/$record_fd"
        if [[ -z $word || $word == "$token" ]]; then return 1; fi
        read -rd '' sleeps_in <"/proc/$child/wchan"
        if [[ ! $sleeps_in =~ ^0?$|futex ]]; then return 1; fi
        state_of "$child"
        if [[ $state != S || ! -r /proc/$child/task/$child/children ]]; then return 1; fi
        for file in "/proc/$child/task/"*/children; do
            read -rd '' pids <"$file"
            for pid in $pids; do
                state_of "$pid"
                if [[ $state != Z ]]; then return 1; fi
                zombies=$((zombies + 1))
            done
        done
    } 2>/dev/null
    ((zombies)) || [[ $sleeps_in == *futex* ]]
}

# Open MPI 4.1 may wait for a lock that nobody gives back when its ranks have ended, mostly where one was killed within MPI_Init,
# and would hold the job's nodes. An mpirun that has looked so for `patience` seconds is killed, and what it would have removed
# is removed. Beside the script; ends with 0 when it has done that, with 1 at SIGUSR2, and when mpirun has gone.
patience=15
end_stuck_mpirun() {
    local quiet looks=0 state folder host
    trap '' USR1 TERM INT HUP # which may go to the whole group; the ranks then save
    trap 'exit 1' USR2
    exec {quiet}<> <(:) >/dev/null
    while state_of "$child" && [[ $state && $state != Z ]]; do
        read -rt 1 <&"$quiet" || true # sleeps
        if looks_stuck; then looks=$((looks + 1)); else looks=0; fi
        if ((looks < patience)); then continue; fi
        trap '' USR2
        say "all ranks have ended, but mpirun does not come back from its end; it is killed"
        kill -KILL "$child" 2>/dev/null || exit 1
        host=$(uname -n)
        for folder in "${OMPI_MCA_orte_tmpdir_base:-${TMPDIR:-${TEMP:-${TMP:-/tmp}}}}/ompi."{"$host","${host%%.*}"}".$EUID"; do
            rm -rf "$folder/pid.$child" || true
            rmdir "$folder" || true # where no other mpirun uses it
        done 2>/dev/null
        exit 0
    done
    exit 1
}

# Turns mpirun's `status` into what the run ended with, and says what mpirun did not. When it loses a node, or its daemon
# there, it has a code of its own, above those of signals (192), or may have 0 or 1. The token stands where rank 0 did not
# begin, or began on another node, which happens with salloc, but in a batch job only with options about hosts.
judge_mpirun() {
    local word='' said part aloud=() of_ranks='^(2|3|4|5|75)$' # 1 is mpirun's own, too
    local own=$stuck why='it lost a node, or its daemon there'
    local elsewhere='host|local|rank_?file'
    { read -r word <"$record" || true; } 2>/dev/null
    exec {record_fd}>&-
    if [[ $word == "$status" || $status =~ $of_ranks ]]; then return; fi
    if $stuck; then why='it was stuck in its end'; fi
    if ((status == 0 || status > 192)); then own=true; fi
    if [[ $word == 75 ]] || { [[ $word =~ ^[1-9] ]] && $own; }; then
        say "mpirun ended with $status, rank 0 with $word, which counts"
        status=$word
    elif [[ $word =~ ^(began|0)$ ]] && $own; then
        if [[ $word == began ]]; then said="and rank 0 was killed"; else said="though rank 0 ended with 0"; fi
        say "mpirun ended with $status: $why, $said; exit code 5"
        status=5
    elif [[ $word == began && $asked ]] && ((status == 1)); then
        say "mpirun ended with 1 before rank 0 did, which was killed"
    elif [[ $word == "$token" && ! $asked ]] && ((status)); then
        # No program, no slots, no daemon? The same again aloud, without the program.
        for part in "${command[@]}"; do [[ $part == --quiet ]] || aloud+=("$part"); done
        said=$(timeout 60 "${aloud[@]}" true 2>&1) || printf '%s\n' "$said" >&2
        say "mpirun ended with $status; rank 0 did not begin, or not on this machine"
    elif [[ $word == "$token" && ! "${TUTTI_MPIRUN_OPTIONS-} ${!OMPI_MCA_*}" =~ $elsewhere ]] && $in_batch && ((status == 0)); then
        say "mpirun ended with 0, but rank 0 did not begin; exit code 5"
        status=5
    fi
}

status=75 # asked before there are ranks: nothing is to be saved
if [[ $asked ]]; then
    say "stopped before the ranks were started"
else
    # Until the program can hold a notice, it is to ignore it, not to end by it; it comes again. /bin/sh: PATH may be empty.
    if $open_mpi; then
        open_record
        wrapped=(/bin/sh -c "$rank_script" run.sh "$record" "$token" "${program[@]}")
    else
        # shellcheck disable=SC2016  # for the inner shell
        wrapped=(/bin/sh -c 'trap "" USR1; exec "$0" "$@"' "${program[@]}")
    fi
    set -m
    ${with_us[@]+"${with_us[@]}"} "${command[@]}" "${wrapped[@]}" <&0 &
    child=$!
    set +m
    started=$SECONDS watcher='' stuck=false
    if $open_mpi; then end_stuck_mpirun & watcher=$!; fi
    if [[ $asked ]]; then pass_on; fi
    while :; do
        signalled=false
        status=0
        wait "$child" || status=$?
        $signalled || break
    done
    if [[ $repeater ]]; then kill "$repeater" 2>/dev/null || true; fi
    if [[ $watcher ]]; then
        kill -USR2 "$watcher" 2>/dev/null || true
        if wait "$watcher" 2>/dev/null && ((status == 137)); then stuck=true; fi
    fi
    if $open_mpi; then judge_mpirun; fi
    if [[ $asked == INT ]] && ((status == 1)); then status=130; fi # of which mpirun makes a 1
fi
if ! $in_batch; then exit "$status"; fi
say "exit code $status, restart ${SLURM_RESTART_COUNT:-0}"
if ((status != 75)); then exit "$status"; fi

# An array's last task has the array's own number, which names all its tasks; what the environment says of an array may be
# another job's, from which this one was submitted.
facts=$(scontrol show job -o "$SLURM_JOB_ID" 2>/dev/null | grep "^JobId=$SLURM_JOB_ID ") || facts=''
fact() { # NAME: what Slurm says of the job
    [[ $facts =~ (^| )$1=([^ ]*) ]] && echo "${BASH_REMATCH[2]}"
}
seconds() { # [DAYS-]HOURS:MINUTES:SECONDS, or nothing
    [[ $1 =~ ^(([0-9]+)-)?([0-9]+):([0-9]+):([0-9]+)$ ]] || return 0
    echo $((((10#0${BASH_REMATCH[2]} * 24 + 10#${BASH_REMATCH[3]}) * 60 + 10#${BASH_REMATCH[4]}) * 60 + 10#${BASH_REMATCH[5]}))
}
job=$SLURM_JOB_ID
if task=$(fact ArrayTaskId); then job=$(fact ArrayJobId)_$task; fi
ran=$(seconds "$(fact RunTime || true)") limit=$(seconds "$(fact TimeLimit || true)") preempted=$(fact PreemptTime || true)
over=false
if [[ $ran && $limit ]] && ((ran >= limit)); then over=true; fi
# A job that does not run any more is one that Slurm ends: preempted or at its limit it is to go on, cancelled it is not.
if (($(fact Restarts || echo 0) > ${SLURM_RESTART_COUNT:-0})); then
    say "Slurm has requeued the job"
elif [[ $(fact JobState || echo RUNNING) == RUNNING || ${preempted:-None} != None ]] || $over; then
    scontrol requeue "$job" || say "not requeued; the same sbatch command goes on from the checkpoint"
else
    say "the job was cancelled, so it is not requeued; the same sbatch command goes on from the checkpoint"
fi
exit "$status"
