"""Dots and convolutions in shapes that the CPU backend treats differently; results by XLA through xla_ref.py.
Usage: productgen.py OUT   (writes OUT/product/NAME)"""
import glob, json, os, subprocess, sys
import numpy as np

out, here, cases = sys.argv[1], os.path.dirname(os.path.abspath(__file__)), {}


def conv(name, x, k, y, window, labels, more="", tol=1e-4, epilogue=None):
    """x, k, y: shapes; epilogue: the feature dimension of y, for bias and relu."""
    body = f"  x = {x} parameter(0)\n  k = {k} parameter(1)\n"
    what = f"c = {y} convolution(x, k), window={{{window}}}, dim_labels={labels}{more}\n"
    if epilogue is None:
        body += "  ROOT " + what
    else:
        kind, dims = y.split("[")[0], y.split("[")[1].rstrip("]").split(",")
        body += (f"  b = {kind}[{dims[epilogue]}] parameter(2)\n  {what}"
                 f"  bb = {y} broadcast(b), dimensions={{{epilogue}}}\n  s = {y} add(c, bb)\n"
                 f"  z = {kind}[] constant(0)\n  zz = {y} broadcast(z), dimensions={{}}\n  ROOT r = {y} maximum(s, zz)\n")
    cases[name] = (f"HloModule {name}\nENTRY e {{\n{body}}}\n", tol)


def dot(name, a, b, c, lc, rc, lb="", rb="", tol=1e-4, tail=None):
    body = f"  a = {a} parameter(0)\n  b = {b} parameter(1)\n  {'ROOT ' if not tail else ''}d = {c} dot(a, b), lhs_batch_dims={{{lb}}}, rhs_batch_dims={{{rb}}}, lhs_contracting_dims={{{lc}}}, rhs_contracting_dims={{{rc}}}\n"
    cases[name] = (f"HloModule {name}\nENTRY e {{\n{body}{tail or ''}}}\n", tol)


conv("conv_bands", "f32[1,40,11,3]", "f32[7,7,3,20]", "f32[1,20,6,20]", "size=7x7 stride=2x2 pad=2_3x3_3", "b01f_01io->b01f", epilogue=3)
conv("conv_few_features", "f32[3,12,12,1]", "f32[3,3,1,16]", "f32[3,12,12,16]", "size=3x3 pad=1_1x1_1", "b01f_01io->b01f")
conv("conv_many_features", "f32[2,5,5,70]", "f32[3,3,70,33]", "f32[2,5,5,33]", "size=3x3 pad=1_1x1_1", "b01f_01io->b01f", epilogue=3)
conv("conv_1x1_stride", "f32[2,9,8,12]", "f32[1,1,12,40]", "f32[2,5,4,40]", "size=1x1 stride=2x2", "b01f_01io->b01f")
conv("conv_features_first", "f32[2,6,9,10]", "f32[8,6,3,3]", "f32[2,8,9,10]", "size=3x3 pad=1_1x1_1", "bf01_oi01->bf01", epilogue=1)
conv("conv_base_dilation", "f32[2,6,5,4]", "f32[3,3,4,9]", "f32[2,11,10,9]", "size=3x3 pad=1_1x1_2 lhs_dilate=2x2", "b01f_01io->b01f")
conv("conv_phases", "f32[2,7,6,5]", "f32[3,3,9,5]", "f32[2,14,12,9]", "size=3x3 pad=1_2x2_1 lhs_dilate=2x2 rhs_reversal=1x1", "b01f_01oi->b01f", epilogue=3)
conv("conv_phases_few", "f32[2,7,6,5]", "f32[1,2,5,9]", "f32[2,14,17,9]", "size=1x2 pad=0_1x1_1 lhs_dilate=2x3", "b01f_01io->b01f")
conv("conv_phases_apart", "f32[2,5,6,17]", "f32[3,2,17,19]", "f32[2,15,12,19]", "size=3x2 pad=2_2x1_1 lhs_dilate=3x2", "b01f_01io->b01f", epilogue=3)
conv("conv_phases_apart_reversed", "f32[1,5,4,24]", "f32[16,8,3,24]", "f32[1,80,32,3]", "size=16x8 pad=31_-1x7_7 lhs_dilate=16x8 rhs_reversal=1x1", "b01f_01oi->b01f")
conv("conv_reversed", "f32[2,8,8,5]", "f32[3,4,5,6]", "f32[2,8,6,6]", "size=3x4 pad=1_1x1_0 rhs_reversal=1x1", "b01f_01io->b01f")
conv("conv_cropped", "f32[1,12,12,4]", "f32[3,3,4,8]", "f32[1,7,8,8]", "size=3x3 pad=-1_-2x-2_0", "b01f_01io->b01f")
conv("conv_kernel_gradient", "f32[6,9,10,5]", "f32[6,9,10,7]", "f32[3,3,5,7]", "size=9x10 pad=1_1x1_1", "f01b_i01o->01bf")
conv("conv_kernel_gradient_stride", "f32[4,9,9,3]", "f32[4,5,5,8]", "f32[3,3,3,8]", "size=5x5 pad=1_1x1_1 rhs_dilate=2x2", "f01b_i01o->01bf")
conv("conv_groups", "f32[2,7,7,12]", "f32[3,3,4,18]", "f32[2,7,7,18]", "size=3x3 pad=1_1x1_1", "b01f_01io->b01f", ", feature_group_count=3", epilogue=3)
conv("conv_batch_groups", "f32[6,7,7,4]", "f32[3,3,4,9]", "f32[2,7,7,9]", "size=3x3 pad=1_1x1_1", "b01f_01io->b01f", ", batch_group_count=3")
conv("conv_depthwise", "f32[2,9,11,21]", "f32[3,3,1,21]", "f32[2,9,11,21]", "size=3x3 pad=1_1x1_1", "b01f_01io->b01f", ", feature_group_count=21", epilogue=3)
conv("conv_depthwise_stride", "f32[1,12,10,16]", "f32[5,3,1,16]", "f32[1,6,5,16]", "size=5x3 stride=2x2 pad=2_2x1_1", "b01f_01io->b01f", ", feature_group_count=16")
conv("conv_3d", "f32[1,5,6,7,4]", "f32[2,3,3,4,8]", "f32[1,4,6,7,8]", "size=2x3x3 pad=0_0x1_1x1_1", "b012f_012io->b012f")
conv("conv_bf16", "bf16[2,8,8,12]", "bf16[3,3,12,20]", "bf16[2,8,8,20]", "size=3x3 pad=1_1x1_1", "b01f_01io->b01f", tol=3e-2)
dot("dot_blocks", "f32[40,1500]", "f32[1500,19]", "f32[40,19]", "1", "0", tol=1e-3)
dot("dot_left_transposed", "f32[300,50]", "f32[300,70]", "f32[50,70]", "0", "0")
dot("dot_right_transposed", "f32[50,300]", "f32[70,300]", "f32[50,70]", "1", "1")
dot("dot_row", "f32[1,200]", "f32[200,333]", "f32[1,333]", "1", "0")
dot("dot_row_transposed", "f32[200]", "f32[77,200]", "f32[77]", "0", "1")
dot("dot_column", "f32[130,90]", "f32[90]", "f32[130]", "1", "0")
dot("dot_batch_inside", "f32[9,4,16]", "f32[16,4,12]", "f32[4,9,12]", "2", "0", "1", "1")
# Small matrices whose batch is innermost; and a product that another one reads, whose sides had better swap.
dot("dot_batch_last", "f32[5,20,3,13]", "f32[20,4,3,13]", "f32[3,13,5,4]", "1", "0", "2,3", "2,3")
dot("dot_batch_last_turned", "c64[6,9,40]", "c64[3,9,40]", "c64[40,6,3]", "1", "1", "2", "2",
    tail="  ROOT t = c64[3,6,40] transpose(d), dimensions={2,1,0}\n")
dot("dot_of_dot", "f32[7,24,20]", "f32[9,24]", "f32[7,20,9]", "1", "1",
    tail="  y = f32[9,20] parameter(2)\n  ROOT e = f32[9,7] dot(y, d), lhs_batch_dims={0}, rhs_batch_dims={2}, lhs_contracting_dims={1}, rhs_contracting_dims={1}\n")
dot("dot_two_contracted", "f32[5,20,6]", "f32[6,5,31]", "f32[20,31]", "0,2", "1,0")
dot("dot_s8", "s8[20,300]", "s8[300,24]", "s8[20,24]", "1", "0")
# Complex: the larger side is summed along its memory or not, on the left or the right; in batches; in groups.
conv("conv_complex", "c64[2,9,8,6]", "c64[3,3,6,10]", "c64[2,9,8,10]", "size=3x3 pad=1_1x1_1", "b01f_01io->b01f")
conv("conv_complex_groups", "c64[2,9,8,8]", "c64[3,3,4,12]", "c64[2,5,4,12]", "size=3x3 stride=2x2 pad=1_1x1_1", "b01f_01io->b01f", ", feature_group_count=2")
dot("dot_complex", "c64[40,33]", "c64[33,37]", "c64[40,37]", "1", "0")
dot("dot_complex_right", "c64[19,33]", "c64[70,33]", "c64[19,70]", "1", "1")
dot("dot_complex_columns", "c64[33,19]", "c64[33,70]", "c64[19,70]", "0", "0")
dot("dot_complex_rows", "c64[33,70]", "c64[19,33]", "c64[70,19]", "0", "1")
dot("dot_complex_batch", "c64[6,7,16]", "c64[16,6,9,4]", "c64[6,7,9,4]", "2", "0", "0", "1")
dot("dot_complex_two", "c64[5,20,6]", "c64[6,31,5]", "c64[20,31]", "0,2", "2,0")
dot("dot_complex_vector", "c128[200]", "c128[77,200]", "c128[77]", "0", "1", tol=1e-11)
dot("dot_f64", "f64[33,65]", "f64[65,40]", "f64[33,40]", "1", "0", tol=1e-11)
dot("dot_epilogue_bf16", "bf16[24,64]", "bf16[64,48]", "bf16[24,48]", "1", "0", tol=3e-2,
    tail="  c = f32[24,48] convert(d)\n  p = f32[24,48] parameter(2)\n  s = f32[24,48] add(c, p)\n  ROOT r = f32[24,48] tanh(s)\n")

dot("dot_slices", "f32[30,80]", "f32[90,70]", "f32[24,33]", "1", "0")
cases["dot_slices"] = ("""HloModule dot_slices
ENTRY e {
  a = f32[30,80] parameter(0)
  b = f32[90,70] parameter(1)
  s = f32[24,40] slice(a), slice={[3:27], [1:80:2]}
  t = f32[40,33] slice(b), slice={[50:90], [2:68:2]}
  d = f32[24,33] dot(s, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT n = f32[24,33] negate(d)
}
""", 1e-4)
dot("dot_s8_odd", "s8[33,301]", "s8[70,301]", "s32[33,70]", "1", "1")
# The same weights in every trip of a loop, whose columns are no whole panels.
cases["dot_in_loop"] = ("""HloModule dot_in_loop
body {
  p = (s32[], f32[40,50], f32[50,50]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  h = f32[40,50] get-tuple-element(p), index=1
  w = f32[50,50] get-tuple-element(p), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  d = f32[40,50] dot(h, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[40,50] tanh(d)
  ROOT r = (s32[], f32[40,50], f32[50,50]) tuple(j, t, w)
}
less {
  p = (s32[], f32[40,50], f32[50,50]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(5)
  ROOT l = pred[] compare(i, n), direction=LT
}
ENTRY e {
  h = f32[40,50] parameter(0)
  w = f32[50,50] parameter(1)
  z = s32[] constant(0)
  t = (s32[], f32[40,50], f32[50,50]) tuple(z, h, w)
  l = (s32[], f32[40,50], f32[50,50]) while(t), condition=less, body=body
  ROOT g = f32[40,50] get-tuple-element(l), index=1
}
""", 1e-3)

# Integers of all sizes and both ends of their range: what is added up in f32 on the way must stay exact.
full = {"dot_s8_full": ("s8[9,1100]", "s8[1100,20]", "s32[9,20]"), "dot_u8_full": ("u8[9,520]", "u8[520,20]", "s32[9,20]"),
        "dot_s16_full": ("s16[9,300]", "s16[300,20]", "s32[9,20]"), "dot_s32_full": ("s32[9,200]", "s32[200,20]", "s32[9,20]"),
        "dot_u16_full": ("u16[9,300]", "u16[300,20]", "u32[9,20]")}
for name, shapes in full.items():
    dot(name, *shapes, "1", "0")


def draw_full(shape, turned, r):
    kind, dims = shape.rstrip("]").split("[")
    info = np.iinfo({"s": "int", "u": "uint"}[kind[0]] + kind[1:])
    x = r.integers(info.min, info.max, [int(n) for n in dims.split(",")], dtype=info.dtype, endpoint=True)
    for i, edge in enumerate([info.min, info.max]):
        (x.T if turned else x)[i] = edge
    return x


n = 0
for name, (body, tol) in cases.items():
    d = f"{out}/product/{name}"
    os.makedirs(d, exist_ok=True)
    open(d + "/module.hlo", "w").write(body)
    inputs = ["--random", "3"]
    if name in full:
        r = np.random.default_rng(3)
        a, b = draw_full(full[name][0], False, r), draw_full(full[name][1], True, r)
        np.save(d + "/in.0.npy", a), np.save(d + "/in.1.npy", b)
        inputs = [d + "/in.0.npy", d + "/in.1.npy"]
    r = subprocess.run([sys.executable, here + "/xla_ref.py", "run", d + "/module.hlo", *inputs, "--out", d, "--save-inputs", d],
                       capture_output=True, text=True)
    if r.returncode:
        print("FAIL", name, (r.stdout + r.stderr)[-300:])
        continue
    if name in full:
        got = np.load(d + "/out.0.npy")
        assert (got == (a.astype(object) @ b.astype(object) % 2**32).astype(np.uint32).astype(got.dtype)).all(), name
    files = lambda kind: sorted(glob.glob(f"{d}/{kind}.*.npy"), key=lambda p: int(p.split(".")[-2]))
    shape = lambda p: [str(np.load(p).dtype), list(np.load(p).shape)]
    json.dump(dict(name="product/" + name, tolerance=tol, inputs=[shape(p) for p in files("in")], outputs=[shape(p) for p in files("out")],
                   note="hand-written HLO"), open(d + "/case.json", "w"), indent=1)
    n += 1
print(n, "of", len(cases), "cases")
