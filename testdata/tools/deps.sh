#!/bin/sh
# Debian packages that the build and its checks need.
#   deps.sh install   installs what is missing (root), or names it and fails
#   deps.sh config    the same, then writes make variables to standard output
set -eu

packages="gcc g++ make flex bison python3 llvm-19-dev llvm-19-tools libcjson-dev libcmocka-dev"
missing=""
for p in $packages; do
    dpkg-query -W -f '${Status}\n' "$p" 2>/dev/null | grep -q 'ok installed' ||
        missing="$missing $p"
done
if [ -n "$missing" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing:$missing" >&2
    (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
        --no-install-recommends $missing) >&2
    missing=""
fi
# What counts in the end is the tools and headers, wherever they came from.
lacking=""
for tool in gcc make flex bison python3 llvm-config-19; do
    command -v "$tool" >/dev/null || lacking="$lacking $tool"
done
for header in cjson/cJSON.h cmocka.h; do
    printf '#include <stdarg.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <setjmp.h>\n#include <%s>\n' "$header" |
        gcc -E -x c - >/dev/null 2>&1 || lacking="$lacking $header"
done
if [ -n "$lacking" ]; then
    echo "missing:$lacking" >&2
    echo "install these packages:${missing:- $packages}" >&2
    echo "    sudo apt-get install$missing" >&2
    exit 1
fi
[ "$1" = config ] || exit 0

# Static libraries where they link, so that the program starts fast and needs no libLLVM.
config=llvm-config-19
dir=$($config --libdir)
parts="x86 aarch64 riscv passes orcjit bitwriter debuginfodwarf"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
printf '#include <llvm-c/LLJIT.h>\nint main(void) { return LLVMOrcDisposeLLJIT(0) != 0; }\n' >"$tmp/t.c"
include=$($config --includedir)
shared="-L$dir -Wl,-rpath,$dir $($config --link-shared --libs)"
libs=$shared
static=$($config --link-static --libs $parts 2>/dev/null || true)
# The same for C++'s own, whose symbols are half of what the dynamic linker has to look up.
for rest in "-static-libgcc -l:libstdc++.a -lrt -ldl -l:libz.a" "-lstdc++ -lrt -ldl -lz"; do
    for zstd in -lzstd -l:libzstd.so.1; do
        try="-L$dir $static $rest $zstd"
        if [ -n "$static" ] && gcc -I"$include" "$tmp/t.c" -o "$tmp/t" $try -lm -lpthread 2>/dev/null; then
            libs=$try
            break 2
        fi
    done
done
echo "LLVM_CFLAGS := -isystem $include"
echo "LLVM_LIBS := $libs"
