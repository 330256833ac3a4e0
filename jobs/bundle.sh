#!/usr/bin/env bash
# Makes a folder that runs on machines without Open MPI, HDF5 and the other libraries: the program, what it links, and
# the parts of Open MPI that ranks on one machine need.
set -euo pipefail

usage() {
    cat <<'END'
usage: jobs/bundle.sh [-b BUILD] [-o FOLDER] [-t]

  -b BUILD    the build to bundle (default: build); configure it with -Dmarch=x86-64-v3 for other machines than this one
  -o FOLDER   what to make (default: BUILD/bundle); it must not exist, or be a bundle, which is replaced
  -t          also what checks it on a machine with a GPU and Python 3.10 or newer: FOLDER/share/tutti/jobs/gpu_check.sh,
              and the test program of a GPU's layers

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
build=$here/../build folder='' tests=()
while (($#)); do
    case $1 in
        -b | -o)
            (($# > 1)) || fail "$1 needs a value"
            if [[ $1 == -b ]]; then build=$2; else folder=$2; fi
            shift 2
            ;;
        -t) tests=("") && shift ;;
        -h | --help) usage && exit 0 ;;
        *) fail "$1 is not an option; see jobs/bundle.sh --help" ;;
    esac
done
trainer=$build/trainer
[[ -x $trainer ]] || fail "$trainer is missing; build it, or name another build with -b"
((${#tests[@]} == 0)) || tests=("$build/tests/kernels/cuda/test_gpu_ops")
for test in "${tests[@]}"; do [[ -x $test ]] || fail "$test is missing; build it with nvcc: ninja -C $build tests/kernels/cuda/test_gpu_ops"; done
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

# Its libraries are the program's and CUDA's.
for test in "${tests[@]}"; do bundle_program "$test" "${test##*/}"; done

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
                mca_osc_* | mca_sharedfp_* | mca_spml_* | mca_scoll_* | mca_sshmem_* | mca_memheap_* | mca_atomic_* | \
                *gridengine* | *flux* | *_jsm.so | mca_plm_rsh.so | mca_vprotocol_* | mca_crs_* | mca_topo_treematch.so | \
                mca_reachable_netlink.so | mca_ras_simulator.so) ;;
            # What is off unless it is asked for, calls between groups, files and programs' places sent ahead, and what
            # serves orte-top and its like.
            mca_coll_adapt.so | mca_coll_han.so | mca_coll_inter.so | mca_coll_sm.so | mca_coll_sync.so | mca_btl_sm.so | \
                mca_mpool_hugepage.so | mca_rcache_grdma.so | mca_compress_* | mca_filem_raw.so | mca_odls_pspawn.so | \
                mca_regx_naive.so | mca_rmaps_mindist.so | mca_rmaps_resilient.so | mca_rmaps_seq.so | \
                mca_routed_binomial.so | mca_state_novm.so | mca_pstat_* | mca_*_tool.so) ;;
            *) cp "$file" "$folder/lib/openmpi/" && plugins+=("$file") ;;
        esac
    done
    for program in mpirun orted; do bundle_program "$(readlink -f "$(command -v $program)")" "$program"; done
    # Relative to OPAL_PREFIX; mpirun starts orted by this name.
    mkdir -p "$folder/share/openmpi" "$folder/etc"
    for file in /usr/share/openmpi/help-*.txt; do
        case ${file##*/} in
            *openib* | *usnic* | *ofi* | *ucx* | *psm* | *mtl* | *shmem* | *spml* | *scoll* | *memheap*) ;;
            *) [[ ! -f $file ]] || cp "$file" "$folder/share/openmpi/" ;;
        esac
    done
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

needed=$(libraries_of "${programs[@]}" "${plugins[@]}")
name_of() { awk -v name="$1" '$1 ~ name { print $1; exit }' <<<"$needed"; }
path_of() { awk -v name="$1" '$1 ~ name { print $2; exit }' <<<"$needed"; }

# Some libraries are linked for a part that nothing here uses. In place of one comes another of its name with C functions
# from standard input, and the symbols "name version" that others take from it.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
replaced=()
stand_in() { # NAME SYMBOLS [LINKER-ARGUMENT...]
    local name=$1 symbols=$2
    shift 2
    cat >"$work/calls.c"
    if grep -q ' Base$' <<<"$symbols"; then # a library without versions
        awk 'BEGIN { print "{ global:" } { print $1 ";" } END { print "local: *; };" }' <<<"$symbols" >"$work/calls.map"
    else
        awk '{ of[$2] = of[$2] " " $1 ";" } END { for (version in of) print version " { global:" of[version] " };" }' \
            <<<"$symbols" >"$work/calls.map"
        echo 'Others { local: *; };' >>"$work/calls.map"
    fi
    cc -shared -fPIC -O2 -w -fno-builtin "-Wl,-soname,$name" "-Wl,--version-script=$work/calls.map" -Wl,--gc-sections \
        -s -o "$folder/lib/$name" "$work/calls.c" "$@"
    replaced+=("$name")
}
# "name version" of what files take from others, where the name begins so; "Base" is none.
taken() { # REGULAR-EXPRESSION
    local prefix=$1 files
    mapfile -t files < <(everybody)
    objdump -T "${files[@]}" | sed -nE "s/.*\*UND\*.*[( ](Base|[A-Za-z0-9_.]*[)]) *(${prefix}[A-Za-z0-9_]*)$/\2 \1/; T; s/[)]$//; p" |
        sort -u
}
# What only replaced libraries want is left out of `needed`: the links of all others are followed.
follow_links() {
    needed=$(
        declare -A seen=()
        for name in "${replaced[@]}"; do seen[$name]=1; done
        follow() { # FILE...: prints "name path" of what it links itself, then of what that links
            local name path file
            for file; do
                while read -r name; do
                    [[ -z ${seen[$name]-} ]] || continue
                    seen[$name]=1
                    path=$(path_of "^${name//[.+]/.}$")
                    [[ -n $path ]] || continue
                    echo "$name $path"
                    follow "$path"
                done < <(objdump -p "$file" | awk '$1 == "NEEDED" { print $2 }')
            done
        }
        follow "${programs[@]}" "${plugins[@]}"
    )
}
everybody() { printf '%s\n' "${programs[@]}" "${plugins[@]}" && awk '{ print $2 }' <<<"$needed"; }
failing() { while read -r name _; do echo "void *$name(void) { return (void *)$1; }"; done; }

if command -v cc >/dev/null; then
    # HDF5 links libcurl for its S3 driver, and libcurl links 11 MiB of protocols.
    curl=$(name_of '^libcurl[.]so') symbols=$(taken curl_)
    [[ -z $curl ]] || stand_in "$curl" "$symbols" < <(
        grep -E '^curl_(easy_init|slist_append) ' <<<"$symbols" | failing 0
        grep -vE '^curl_(easy_init|slist_append) ' <<<"$symbols" | failing 2 # CURLE_FAILED_INIT
    )
    # gloo links libibverbs, and that libnl, for a transport that it is not asked for.
    verbs=$(name_of '^libibverbs[.]so') symbols=$(taken ibv_)
    [[ -z $verbs ]] || stand_in "$verbs" "$symbols" < <(failing 0 <<<"$symbols")
    # Nor is its meeting place at a Redis server.
    redis=$(name_of '^libhiredis[.]so') symbols=$(taken '(redis[A-Z]|freeReply)')
    [[ -z $redis ]] || stand_in "$redis" "$symbols" < <(failing 0 <<<"$symbols")
    # hwloc links libudev for the names of disks, and oneDNN OpenCL for graphics processors that it is not asked for.
    udev=$(name_of '^libudev[.]so') symbols=$(taken udev_)
    [[ -z $udev ]] || stand_in "$udev" "$symbols" < <(failing 0 <<<"$symbols")
    opencl=$(name_of '^libOpenCL[.]so') symbols=$(taken 'cl[A-Z]' | grep ' OPENCL_' || true)
    [[ -z $opencl ]] || stand_in "$opencl" "$symbols" < <(failing -1001 <<<"$symbols") # CL_PLATFORM_NOT_FOUND_KHR
    # Of libjpeg what `trainer pack images` reads with (of libpng that would be nearly all). Debian's static libraries are
    # made for programs, which know where a variable of the C library lies; a library finds it out at its start.
    jpeg=$(name_of '^libjpeg[.]so') symbols=$(taken jpeg_)
    if [[ -n $jpeg && -f $(cc -print-file-name=libjpeg.a) ]]; then
        mapfile -t wanted < <(sed 's/ .*//; s/^/-Wl,-u,/' <<<"$symbols")
        stand_in "$jpeg" "$symbols" "${wanted[@]}" -Wl,--wrap=stderr -Wl,-Bsymbolic -l:libjpeg.a <<'END'
#include <stdio.h>
extern FILE *__real_stderr;
__attribute__((visibility("hidden"))) FILE *__wrap_stderr;
__attribute__((constructor)) static void find_it(void) { __wrap_stderr = __real_stderr; }
END
    fi
    follow_links
    # Of OpenSSL's 4.5 MiB the program uses SHA-256, which comes from the static library, and HDF5's S3 driver HMAC,
    # which fails. Where anything else is taken from it, it stays whole.
    crypto=$(name_of '^libcrypto[.]so') symbols=$(taken '' | grep ' OPENSSL_[0-9.]*$' || true)
    known='(EVP_(sha256|DigestInit_ex|DigestUpdate|DigestFinal_ex|MD_CTX_new|MD_CTX_free)|HMAC|SHA256) '
    if [[ -n $crypto && -f $(cc -print-file-name=libcrypto.a) ]] && ! grep -vqE "^$known" <<<"$symbols"; then
        stand_in "$crypto" "$symbols" -l:libcrypto.a <<'END'
#include <openssl/sha.h>
#include <stdlib.h>
static const char sha256 = 0;
const void *EVP_sha256(void) { return &sha256; }
void *EVP_MD_CTX_new(void) { return malloc(sizeof(SHA256_CTX)); }
void EVP_MD_CTX_free(void *state) { free(state); }
int EVP_DigestInit_ex(void *state, const void *type, void *engine) {
    return type == &sha256 && !engine && SHA256_Init(state);
}
int EVP_DigestUpdate(void *state, const void *data, size_t size) { return SHA256_Update(state, data, size); }
int EVP_DigestFinal_ex(void *state, unsigned char *digest, unsigned *size) {
    if (size) *size = SHA256_DIGEST_LENGTH;
    return SHA256_Final(digest, state);
}
unsigned char *SHA256(const unsigned char *data, size_t size, unsigned char *digest) {
    SHA256_CTX state;
    return SHA256_Init(&state) && SHA256_Update(&state, data, size) && SHA256_Final(digest, &state) ? digest : 0;
}
void *HMAC(void) { return 0; }
END
        follow_links
    fi
fi
while read -r name path; do
    [[ -n $name ]] || continue
    cp -L "$path" "$folder/lib/$name"
    chmod u+w "$folder/lib/$name"
done <<<"$needed"

mkdir -p "$folder/share/tutti"
cp -r "$here" "$folder/share/tutti/jobs"
rm -f "$folder"/share/tutti/jobs/{bundle,test,quickstart,packages}.sh # they need the sources
if ((${#tests[@]})); then
    mkdir -p "$folder/share/tutti/tests/bench"
    cp -r "$here/../tests/gpu" "$folder/share/tutti/tests/gpu"
    cp "$here/../tests/bench/torch_models.py" "$folder/share/tutti/tests/bench/" # of models that other benchmarks have, too
else
    rm "$folder/share/tutti/jobs/gpu_check.sh"
fi

glibc=$(find "$folder" -type f \( -name '*.so*' -o -path '*/libexec/*' \) -exec objdump -T {} + 2>/dev/null |
    grep -o 'GLIBC_2\.[0-9]*' | sort -uV | tail -1)
march=$(meson introspect "$build" --buildoptions 2>/dev/null |
    python3 -c 'import json, sys; print(next(o["value"] for o in json.load(sys.stdin) if o["name"] == "march"))' 2>/dev/null || echo unknown)
# "  4.5 MiB  trainer" of each part; one takes what those before it have left.
sizes() {
    find "$folder" -type f -printf '%k %P\n' | awk '
        { part = "other libraries" }
        $2 ~ /^libexec\/trainer$/ { part = "trainer" }
        $2 ~ /libtutti_cuda/ { part = "CUDA module" }
        $2 ~ /libdnnl|libOpenCL|libgomp/ { part = "oneDNN" }
        $2 ~ /^share|^bin|^etc|BUNDLE/ { part = "scripts and messages" }
        $2 ~ /libhdf5|libsz|libaec|libz\./ { part = "HDF5" }
        $2 ~ /openmpi|pmix|libmpi|libopen-|hwloc|libevent|libudev|munge|libexec\/(mpirun|orted)/ { part = "Open MPI" }
        $2 ~ /libstdc|libgcc/ { part = "C++ library" }
        { kib[part] += $1; all += $1 }
        END {
            for (part in kib) printf "  %5.1f MiB  %s\n", kib[part] / 1024, part | "sort -rn"
            close("sort -rn")
            printf "size: %.1f MiB\n", all / 1024
        }'
}
{
    echo "Tutti, bundled: $("$folder/bin/trainer" --version 2>/dev/null | sed -n 1p || echo '?')"
    echo "instruction set: $march"
    echo "needs: ${glibc/_/ } or newer (the C library), and a driver for GPUs"
    echo "left out: networks with drivers of their own (UCX, OFI, InfiniBand), MPI's files and one-sided calls, schedulers but Slurm, ssh;"
    ((${#replaced[@]} == 0)) || echo "replaced by what is used of them: ${replaced[*]}"
    sizes
} | tee "$folder/BUNDLE.txt"
if [[ $march == native ]]; then
    echo "bundle: built with -Dmarch=native: it may stop with \"Illegal instruction\" on another kind of processor" >&2
fi
echo "bundle: $folder"
