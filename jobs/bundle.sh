#!/usr/bin/env bash
# Makes a folder that runs on machines without Open MPI, HDF5 and the other libraries: the program, what it links, and
# the parts of Open MPI that ranks on one machine need.
set -euo pipefail

usage() {
    cat <<'END'
usage: jobs/bundle.sh [-b BUILD] [-o FOLDER]

  -b BUILD    the build to bundle (default: build); configure it with -Dmarch=x86-64-v3 for other machines than this one
  -o FOLDER   what to make (default: BUILD/bundle); it must not exist, or be a bundle, which is replaced

The folder may be moved. FOLDER/bin/trainer and FOLDER/bin/mpirun start it. From the system come the C library and the
NVIDIA driver; CUDA's libraries (cuBLAS, cuDNN, NCCL) are not in it: name their folders in TUTTI_CUDA_LIBRARIES.

  FOLDER/bin/mpirun -np 2 FOLDER/bin/trainer -c my.yaml
END
}

fail() {
    echo "error: jobs/bundle.sh: $*" >&2
    exit 2
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$here/../build folder=''
while (($#)); do
    case $1 in
        -b | -o)
            (($# > 1)) || fail "$1 needs a value"
            if [[ $1 == -b ]]; then build=$2; else folder=$2; fi
            shift 2
            ;;
        -h | --help) usage && exit 0 ;;
        *) fail "$1 is not an option; see jobs/bundle.sh --help" ;;
    esac
done
trainer=$build/trainer
[[ -x $trainer ]] || fail "$trainer is missing; build it, or name another build with -b"
folder=${folder:-$build/bundle}
if [[ -e $folder ]]; then
    [[ -f $folder/BUNDLE.txt ]] || fail "$folder exists and is no bundle; name another folder with -o"
    rm -rf "$folder"
fi
mkdir -p "$folder"/{bin,libexec,lib/openmpi,lib/pmix,share}
: >"$folder/BUNDLE.txt" # so that one that was interrupted is replaced

# The C library belongs to the system: another one beside it would not fit its loader.
from_the_system='^(linux-vdso|ld-linux[^/]*|libc|libm|libdl|librt|libpthread|libresolv|libutil|libanl|libnsl)\.so'

# "name path" of every library that the files link, directly or not. From the loader itself, so as they will be found.
libraries_of() { # FILE...
    local lines
    for file; do
        lines=$(ldd "$file")
        if grep -q 'not found' <<<"$lines"; then fail "$file: $(grep 'not found' <<<"$lines" | head -1)"; fi
        awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 }' <<<"$lines"
    done | sort -u | { grep -Ev "$from_the_system" || true; }
}

bundle_program() { # FROM NAME
    cp "$1" "$folder/libexec/$2"
    strip "$folder/libexec/$2"
    cat >"$folder/bin/$2" <<'END'
#!/bin/sh
# Starts the program of the same name in libexec with the libraries of this folder.
case $0 in
    */*) here=${0%/*}/.. ;;
    *) here=$(command -v "$0") && here=${here%/*}/.. ;;
esac
here=$(cd "$here" && pwd -P)
LD_LIBRARY_PATH=$here/lib${TUTTI_CUDA_LIBRARIES:+:$TUTTI_CUDA_LIBRARIES}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
OPAL_PREFIX=$here
OPAL_LIBDIR=$here/lib
OPAL_PKGLIBDIR=$here/lib/openmpi
OPAL_PKGDATADIR=$here/share/openmpi
PMIX_PREFIX=$here
PMIX_LIBDIR=$here/lib
PMIX_PKGLIBDIR=$here/lib/pmix
OMPI_MCA_mca_base_component_path=$here/lib/openmpi
PMIX_MCA_pmix_mca_base_component_path=$here/lib/pmix
HWLOC_PLUGINS_PATH=$here/lib/hwloc # none: the system's would bring X11 and OpenCL
export LD_LIBRARY_PATH OPAL_PREFIX OPAL_LIBDIR OPAL_PKGLIBDIR OPAL_PKGDATADIR PMIX_PREFIX PMIX_LIBDIR PMIX_PKGLIBDIR
export OMPI_MCA_mca_base_component_path PMIX_MCA_pmix_mca_base_component_path HWLOC_PLUGINS_PATH
exec "$here/libexec/${0##*/}" "$@"
END
    chmod +x "$folder/bin/$2"
}

bundle_program "$trainer" trainer
if [[ -f $build/libtutti_cuda.so ]]; then
    cp "$build/libtutti_cuda.so" "$folder/libexec/"
    strip --strip-unneeded "$folder/libexec/libtutti_cuda.so"
fi

# Open MPI: what starts ranks on one machine and carries messages in its memory or over TCP. A build with another MPI
# brings only the library it links.
plugins=()
mpi=$(ldd "$trainer" | awk '/libmpi\.so/ { print $3 }')
if [[ -n $mpi && -d $(dirname "$(readlink -f "$mpi")")/openmpi/lib/openmpi3 ]]; then
    components=$(dirname "$(readlink -f "$mpi")")/openmpi/lib/openmpi3
elif [[ -n $mpi ]]; then
    components=$(dirname "$mpi")/openmpi3
fi
if [[ -d ${components-} ]]; then
    for file in "$components"/mca_*.so; do
        case ${file##*/} in
            # Networks with drivers of their own, MPI's files, one-sided calls, OpenSHMEM, other schedulers; and ssh,
            # without which Open MPI would stop on a machine that has none.
            *ucx* | *ofi* | *openib* | *usnic* | *_psm* | *_mtl_* | *monitoring* | *_pml_cm.so | mca_io_* | mca_f[bcs]* | \
                mca_sharedfp_* | mca_spml_* | mca_scoll_* | mca_sshmem_* | mca_memheap_* | mca_atomic_* | \
                *gridengine* | *flux* | *_jsm.so | mca_plm_rsh.so | mca_vprotocol_* | mca_crs_* | mca_topo_treematch.so) ;;
            *) cp "$file" "$folder/lib/openmpi/" && plugins+=("$file") ;;
        esac
    done
    for program in mpirun orted; do bundle_program "$(readlink -f "$(command -v $program)")" "$program"; done
    # Relative to OPAL_PREFIX; mpirun starts orted by this name.
    mkdir -p "$folder/share/openmpi" "$folder/etc"
    cp /usr/share/openmpi/help-*.txt "$folder/share/openmpi/" 2>/dev/null || true
    # A build of Open MPI with its own PMIx has no such file.
    pmix=$({ ldd "$components/mca_pmix_ext3x.so" 2>/dev/null || true; } | awk '/libpmix\.so/ { print $3 }')
    if [[ -n $pmix ]]; then
        for file in "$(dirname "$(readlink -f "$pmix")")"/pmix/*.so; do
            cp "$file" "$folder/lib/pmix/" && plugins+=("$file")
        done
    fi
fi

programs=("$trainer")
[[ ! -d ${components-} ]] || programs+=("$(command -v mpirun)" "$(command -v orted)")

# HDF5 links libcurl for its S3 driver, which nothing here uses, and libcurl links 11 MiB of protocols: a stand-in that
# answers every call with "failed" takes its place.
curl=$(libraries_of "${programs[@]}" "${plugins[@]}" | awk '$1 ~ /^libcurl\.so/ { print $1 }')
needed=$(libraries_of "${programs[@]}" "${plugins[@]}")
if [[ -n $curl ]] && command -v cc >/dev/null; then
    hdf5=$(awk '$1 ~ /^libhdf5[^_]*(_serial)?\.so/ { print $2; exit }' <<<"$needed")
    symbols=$(objdump -T "$hdf5" | awk '/\*UND\*/ && $NF ~ /^curl_/ { print $NF }')
    version=$(objdump -T "$hdf5" | sed -n 's/.*(\(CURL_[A-Z0-9_]*\)) curl_.*/\1/p' | head -1)
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    for symbol in $symbols; do
        case $symbol in
            curl_easy_init | curl_slist_append) echo "void *$symbol(void) { return 0; }" ;;
            *) echo "int $symbol(void) { return 2; }" ;;  # CURLE_FAILED_INIT
        esac
    done >"$work/curl.c"
    echo "$version { global: curl_*; local: *; };" >"$work/curl.map"
    cc -shared -fPIC -O2 -fno-builtin "-Wl,-soname,$curl" "-Wl,--version-script=$work/curl.map" -o "$folder/lib/$curl" "$work/curl.c"
    # What only libcurl wants is left out: follow the links of all others.
    needed=$(
        declare -A seen=()
        follow() { # FILE...: prints "name path" of what it links itself, then of what that links
            local name path file
            for file; do
                while read -r name; do
                    [[ -z ${seen[$name]-} && $name != "$curl" ]] || continue
                    seen[$name]=1
                    path=$(awk -v name="$name" '$1 == name { print $2; exit }' <<<"$needed")
                    [[ -n $path ]] || continue
                    echo "$name $path"
                    follow "$path"
                done < <(objdump -p "$file" | awk '$1 == "NEEDED" { print $2 }')
            done
        }
        follow "${programs[@]}" "${plugins[@]}"
    )
fi
while read -r name path; do
    [[ -n $name ]] || continue
    cp -L "$path" "$folder/lib/$name"
    chmod u+w "$folder/lib/$name"
done <<<"$needed"

mkdir -p "$folder/share/tutti"
cp -r "$here" "$folder/share/tutti/jobs"
rm -f "$folder"/share/tutti/jobs/{gpu_check,bundle,test,quickstart,packages}.sh # they need the sources

glibc=$(find "$folder" -type f \( -name '*.so*' -o -path '*/libexec/*' \) -exec objdump -T {} + 2>/dev/null |
    grep -o 'GLIBC_2\.[0-9]*' | sort -uV | tail -1)
march=$(meson introspect "$build" --buildoptions 2>/dev/null |
    python3 -c 'import json, sys; print(next(o["value"] for o in json.load(sys.stdin) if o["name"] == "march"))' 2>/dev/null || echo unknown)
kib=$(du -sk "$folder" | cut -f1)
{
    echo "Tutti, bundled: $("$folder/bin/trainer" --version 2>/dev/null || echo '?')"
    echo "instruction set: $march"
    echo "needs: ${glibc/_/ } or newer (the C library), and a driver for GPUs"
    echo "size: $((kib / 1024)) MiB"
} | tee "$folder/BUNDLE.txt"
if [[ $march == native ]]; then
    echo "bundle: built with -Dmarch=native: it may stop with \"Illegal instruction\" on another kind of processor" >&2
fi
echo "bundle: $folder"
