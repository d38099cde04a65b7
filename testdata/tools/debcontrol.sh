#!/bin/sh
# The control file of the Debian package: debcontrol.sh VERSION ARCHITECTURE TREE
set -eu
# What the program and the library link, as the packages that have these files.
needs=$(ldd "$3/usr/bin/hlocc" "$3"/usr/lib/libhlocc.so.* | awk '$2 == "=>" { print $3 }' | sort -u)
depends=
for file in $needs; do
    package=$(dpkg-query -S "$file" "/usr$file" 2>/dev/null | head -n 1 | cut -d: -f1) || true
    case ", $depends, " in *", $package, "*) continue ;; esac
    [ -n "$package" ] && depends="${depends:+$depends, }$package"
done
cat <<EOF
Package: hlocc
Version: $1
Architecture: $2
Maintainer: hlocc <hlocc@localhost>
Installed-Size: $(du -sk "$3/usr" | cut -f1)
Depends: $depends
Recommends: gcc
Suggests: pkg-config
Section: devel
Priority: optional
Description: ahead-of-time compiler for HLO, the tensor language of XLA
 Reads HLO text, as JAX, TensorFlow and PyTorch/XLA hand it to XLA, and makes
 native objects, shared libraries and programs of it that need no Python and
 no large library. The compiler is also a C library.
EOF
