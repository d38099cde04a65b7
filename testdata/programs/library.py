"""The compiler's shared library from Python, by ctypes: library.py LIBHLOCC.so"""
import ctypes
import sys

TEXT = (b"ENTRY e {\n  x = f32[3] parameter(0)\n  ROOT y = f32[3] sort(x), dimensions={0}, to_apply={\n"
        b"    a = f32[] parameter(0)\n    b = f32[] parameter(1)\n"
        b"    ROOT c = pred[] compare(a, b), direction=GT\n  }\n}\n")


def main():
    library = ctypes.CDLL(sys.argv[1])
    library.hlocc_parse.restype = ctypes.c_void_p
    library.hlocc_parse.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t,
                                    ctypes.POINTER(ctypes.c_char_p)]
    for name in ("hlocc_prepare", "hlocc_run", "hlocc_free"):
        getattr(library, name).argtypes = [ctypes.c_void_p] + {
            "hlocc_prepare": [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)],
            "hlocc_run": [ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_char_p)],
            "hlocc_free": []}[name]
    messages = ctypes.c_char_p()
    program = library.hlocc_parse(b"e.hlo", TEXT, len(TEXT), messages)
    if not program or library.hlocc_prepare(program, 1, messages) != 0:
        sys.exit(messages.value.decode())
    x, y = (ctypes.c_float * 3)(1, 3, 2), (ctypes.c_float * 3)()
    inputs = (ctypes.c_void_p * 1)(ctypes.addressof(x))
    outputs = (ctypes.c_void_p * 1)(ctypes.addressof(y))
    if library.hlocc_run(program, inputs, outputs, messages) != 0:
        sys.exit(messages.value.decode())
    library.hlocc_free(program)
    print(*("%g" % v for v in y))


if __name__ == "__main__":
    main()
