#!/bin/sh
# Compiles a small convolutional network to an object, links it into a C program, and runs that.
#   demo.sh BUILD_DIR
set -eu
build=$1
here=$(dirname "$0")
case=$here/../corpus/seed/mnist_cnn_forward_b1
out=$build/demo
mkdir -p "$out"
show() {
    echo "+ $*"
    "$@"
}
show "$build/hlocc" compile "$case/module.hlo" -o "$out/mnist.o" --symbol=mnist
show gcc -O2 -Wall -I"$out" "$here/mnist.c" "$out/mnist.o" "$build/libhlocc_rt.a" \
    -lm -lpthread -o "$out/mnist"
show "$out/mnist" "$case"
