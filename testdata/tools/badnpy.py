#!/usr/bin/env python3
"""Writes small .npy files into the current folder: some that fit f32[2,3], more that do not."""
import struct


def npy(name, header, data, version=1, cut=None):
    text = header.encode("latin1") + b"\n"
    size = struct.pack("<H" if version == 1 else "<I", len(text))
    whole = b"\x93NUMPY" + bytes([version, 0]) + size + text + data
    with open(name + ".npy", "wb") as out:
        out.write(whole[:cut])


def describe(dtype="<f4", order="False", shape="(2, 3)"):
    return "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }" % (dtype, order, shape)


ROWS = struct.pack("<6f", 0, 1, 2, 3, 4, 5)
COLUMNS = struct.pack("<6f", 0, 3, 1, 4, 2, 5)

npy("good", describe(), ROWS)
npy("fortran", describe(order="True"), COLUMNS)
npy("version2", describe(), ROWS, version=2)
npy("version3", describe(), ROWS, version=3)
npy("type", describe("<f8"), ROWS + ROWS)
npy("shape", describe(shape="(3, 2)"), ROWS)
npy("big", describe(">f4"), struct.pack(">6f", 0, 1, 2, 3, 4, 5))
npy("short", describe(), ROWS[:20])
npy("long", describe(), ROWS + b"\0")
npy("header", describe(), ROWS, cut=40)
npy("overflow", describe(shape="(4294967296, 4294967296)"), ROWS)
npy("digits", describe(shape="(99999999999999999999,)"), ROWS)
npy("object", describe("|O"), ROWS)
npy("bytes", describe("<f8", shape="(2305843009213693952,)"), b"")
npy("descr", describe("<f4\0"), ROWS)
npy("behind", describe() + " and more", ROWS)
npy("rank", describe(shape="(%s)" % ("1, " * 100)), ROWS)
npy("longhead", describe() + " " * 70000, ROWS, version=2)
npy("version4", describe(), ROWS, version=4)
npy("empty", describe(), ROWS, cut=0)
npy("sparse", describe(), ROWS)
with open("sparse.npy", "r+b") as out:
    out.truncate(1 << 33)
with open("magic.npy", "wb") as out:
    out.write(b"PK\x03\x04 this is some other file")
