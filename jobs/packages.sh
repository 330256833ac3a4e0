# shellcheck shell=bash disable=SC2034  # the lists are for those who source this
# The Debian packages that Tutti needs. Sourced by quickstart.sh and test.sh; the only list there is.

# g++ brings the sanitizers; ccache is found by Meson on its own and makes a rebuild cheap.
build_packages=(
    g++ ccache meson ninja-build pkg-config python3
    libopenmpi-dev openmpi-bin libhdf5-dev libdnnl-dev libeigen3-dev
    libgloo-dev libyaml-cpp-dev libcli11-dev libfmt-dev libspdlog-dev nlohmann-json3-dev libssl-dev zlib1g-dev
    libpng-dev libjpeg-dev
    dataset-fashion-mnist
)
# MPICH is only tested against, beside Open MPI. Slurm's daemons and iproute2: launches over several nodes are tested on
# clusters inside this machine. strace: which files a program opens at the numbers of closed streams.
test_packages=(libgtest-dev clang-format mpich libmpich-dev slurmctld slurmd slurm-client munge iproute2 strace)

# Installs those of the named packages that are missing. Silent when there is nothing to do.
install_packages() {
    if ! command -v dpkg-query >/dev/null; then
        echo "packages: this is not a Debian system; needed are the equivalents of: $*"
        return 0
    fi

    local installed package missing=()
    # dpkg-query fails when it does not know a name; then that package is simply not in its answer.
    # shellcheck disable=SC2016  # ${…} is dpkg-query's
    installed=" $(dpkg-query -W -f '${Package}:${db:Status-Status} ' "$@" 2>/dev/null || true)"
    for package in "$@"; do
        [[ $installed == *" $package:installed "* ]] || missing+=("$package")
    done
    if ((${#missing[@]} == 0)); then return 0; fi

    local as_root=()
    if ((EUID != 0)); then
        if ! command -v sudo >/dev/null; then
            as_root=(false)
        elif sudo -n true 2>/dev/null; then
            as_root=(sudo -n)
        elif { : </dev/tty; } 2>/dev/null; then
            as_root=(sudo) # asks for the password on the terminal
        else
            as_root=(false)
        fi
    fi
    if [[ ${as_root[0]-} == false ]]; then
        echo "packages: missing, and only root can install them. Run this once:" >&2
        echo "  apt-get update && apt-get install -y --no-install-recommends ${missing[*]}" >&2
        return 1
    fi

    echo "packages: installing ${missing[*]}"
    local log
    log=$(mktemp "${TMPDIR:-/tmp}/tutti-apt-XXXXXX")
    # An update may fail because of a source that we do not need: whether it matters, the installation shows.
    run_apt "$log" update || true
    local status=0 install=(install --no-install-recommends "${missing[@]}")
    if [[ " ${missing[*]} " =~ \ (${daemon_packages// /|})\  ]]; then
        run_apt "$log" --without-services "${install[@]}" || status=$?
    else
        run_apt "$log" "${install[@]}" || status=$?
    fi
    if ((status != 0)); then
        tail -n 20 "$log" >&2
        echo "packages: apt-get failed; its output is in $log" >&2
        return 1
    fi
    rm -f "$log"
}

# Packages that bring daemons start them when they are installed; nobody asked for those. Debian's maintainer scripts
# ask policy-rc.d before (invoke-rc.d(8)); 101 means no. One shell, with root's rights from the beginning, makes it and
# removes it, whatever ends the command in between; one that is somebody else's stays.
daemon_packages="slurmctld slurmd munge"
service_policy=/usr/sbin/policy-rc.d
# shellcheck disable=SC2016  # the variables are the inner shell's
without_services='
    policy=$1
    shift
    mark="# made by jobs/packages.sh while it installs, and removed by it: process"
    maker=$(sed -n "s|^$mark ||p" "$policy" 2>/dev/null)
    if [ ! -e "$policy" ] || { [ -n "$maker" ] && ! grep -qsF "$policy" "/proc/$maker/cmdline"; }; then
        trap '\''rm -f "$policy"'\'' EXIT
        trap "exit 129" HUP
        trap "exit 130" INT
        trap "exit 143" TERM
        printf "%s\n" "#!/bin/sh" "$mark $$" "exit 101" >"$policy"
        chmod 755 "$policy"
    fi
    "$@"
'

# run_apt LOG [--without-services] ARGUMENT...: apt-get with its output in a log. The time-out covers dpkg's lock only:
# those of the package lists and of the download folder are waited for here, as long.
run_apt() {
    local log=$1 attempt before=() status
    shift
    if [[ $1 == --without-services ]]; then
        before=(sh -c "$without_services" sh "$service_policy")
        shift
    fi
    for ((attempt = 0; attempt < 60; ++attempt)); do
        status=0
        ${as_root[@]+"${as_root[@]}"} env DEBIAN_FRONTEND=noninteractive LC_ALL=C ${before[@]+"${before[@]}"} \
            apt-get -q -y -o DPkg::Lock::Timeout=300 "$@" </dev/null >"$log" 2>&1 || status=$?
        if ((status == 0)); then return 0; fi
        # The inner shell has heard a signal, and cleaned up: this one was meant, too.
        if ((status > 128)); then exit "$status"; fi
        grep -qE 'Could not get lock|Unable to (acquire|lock)' "$log" || return 1
        sleep 5
    done
    return 1
}
