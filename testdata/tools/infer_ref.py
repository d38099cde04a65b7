#!/usr/bin/env python3
"""Shape inference against XLA's: instructions without a written shape, right and wrong ones, for
which both must infer the same, or both refuse.

    infer_ref.py HLOCC [-v]

XLA's parser infers shapes where they are left out, but verifies nothing; KNOWN lists where hlocc is
stricter or knows more, each with its reason. Needs jax; XLA aborts on some, so each is a fork."""
import itertools
import json
import os
import re
import subprocess
import sys

os.environ["JAX_PLATFORMS"] = "cpu"
from jaxlib import _hlo

COMPUTATIONS = """HloModule m
sum { l = f32[] parameter(0)
  r = f32[] parameter(1)
  ROOT x = f32[] add(l, r) }
isum { l = s32[] parameter(0)
  r = s32[] parameter(1)
  ROOT x = s32[] add(l, r) }
sum2 { a = f32[] parameter(0)
  b = s32[] parameter(1)
  c = f32[] parameter(2)
  d = s32[] parameter(3)
  e = f32[] add(a, c)
  f = s32[] add(b, d)
  ROOT x = (f32[], s32[]) tuple(e, f) }
less { l = f32[] parameter(0)
  r = f32[] parameter(1)
  ROOT x = pred[] compare(l, r), direction=LT }
less2 { l = f32[] parameter(0)
  r = f32[] parameter(1)
  l2 = s32[] parameter(2)
  r2 = s32[] parameter(3)
  ROOT x = pred[] compare(l, r), direction=LT }
neg { l = f32[] parameter(0)
  ROOT x = f32[] negate(l) }
negm { l = f32[2,3] parameter(0)
  ROOT x = f32[2,3] negate(l) }
pair { l = f32[] parameter(0)
  ROOT x = (f32[], f32[]) tuple(l, l) }
"""
# The parameters of the program that holds the instruction.
PARAMETERS = """
a = f32[2,3]; b = f32[3,2]; s = f32[]; n = s32[]; i = s32[3]; g = f32[1,6,6,2]; k = f32[3,3,2,4];
c = pred[2,3]; p = pred[]; sq = f32[4,4]; sqb = f32[5,4,4]; sqr = f32[5,4,2]; cx = c64[2,3]; x1 =
f32[3]; x8 = s8[4,4]; u8m = u8[4,4]; i32m = s32[4,4]; i64m = s64[4,4]; u32m = u32[4,4]; bf =
bf16[4,4]; h = f16[4,4]; d = f64[4,4]; c64m = c64[4,4]; c128m = c128[4,4]; pm = pred[4,4]; gi =
s8[1,6,6,2]; ki = s8[3,3,2,4]; k0 = f32[0,3,2,4]; g0 = f32[1,0,6,2]; fv8 = f32[8]; f16v =
f32[5,8]; c8 = c64[8]; c5 = c64[5]; c57 = c64[7,5]; d8 = f64[8]; h8 = f16[8]; e0 = f32[0]; ce0 =
c64[0]; v2 = f32[2]; v3 = f32[3]; hv2 = f16[2]; bv2 = bf16[2]; dv2 = f64[2]; hg = f16[1,6,6,2]; is
= s32[]; us = u32[]; ls = s64[]; u64v = u64[2]; u32v = u32[3]; f8m = f8e4m3fn[4,4]; f85m =
f8e5m2[4,4]; s4m = s4[4,4]; tok = token[]; tp = (f32[2,3], s32[3]); gs = s32[2]; rd = f32[2,4,5];
i2 = s32[2,2]; i3 = s32[5,2]; upd = f32[5]; row = f32[5,3]; i23 = s32[2,3]; cs = c64[]; ab =
f32[4,6]; one = f32[1,3]
"""

# (pattern of the instruction, why the two differ)
KNOWN = [
    (r"^(add|maximum|minimum|multiply|mulhi|atan2|divide|power|remainder|subtract|compare|complex|shift-\S+|"
     r"select|clamp|concatenate|scatter)\(", "operands of one type and shape: XLA's verifier wants that too"),
    (r"^(mulhi|shift-\S+)\(", "integers only"),
    (r"^(reduce-precision|slice|dynamic-slice|dynamic-update-slice|map)\(", "inferred here, not by XLA's parser"),
    (r"^get-dimension-size\(a\), dimensions={0,1}", "one dimension"),
    (r"^broadcast\(", "not inferred here"),
    (r"^gather\(.*batching_dims", "batching dimensions of one size, apart from the others"),
    (r"^reduce-window\(a,i23", "XLA's parser infers no variadic ones"),
    (r"^sort\(", "dimension and comparator are checked; XLA aborts without one dimension"),
    (r"^fft\(", "XLA leaves results of other lengths undefined"),
]


def instructions():
    """The instructions, without `q = `."""
    L = []
    T = ['x8', 'u8m', 'i32m', 'i64m', 'u32m', 'bf', 'h', 'sq', 'd', 'c64m', 'c128m', 'pm', 'f8m', 'f85m', 's4m']
    for t in T:
        L.append(f'dot({t}, {t}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}')
    for (t, u) in itertools.combinations(T, 2):
        L.append(f'dot({t}, {u}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}')
    L += [
        'dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}',
        'dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}',
        'dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={1}',
        'dot(a, a), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_contracting_dims={1}',
        'dot(a, a), lhs_batch_dims={0}, rhs_batch_dims={0}',
        'dot(a, a), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={0}, rhs_contracting_dims={0}',
        'dot(a,a)',
        'dot(s,a)',
        'dot(s,s)',
        'dot(x1,x1)',
        'dot(x1,x1), lhs_contracting_dims={0}, rhs_contracting_dims={0}',
        'dot(x1,b), lhs_contracting_dims={0}, rhs_contracting_dims={0}',
        'dot(sqb,sqr), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}',
        'dot(sqb,sqr), lhs_batch_dims={1}, rhs_batch_dims={1}, lhs_contracting_dims={0}, rhs_contracting_dims={0}',
        'dot(a, b), lhs_contracting_dims={2}, rhs_contracting_dims={0}',
        'dot(a, b), lhs_contracting_dims={1,1}, rhs_contracting_dims={0,0}',
        'dot(a,b), lhs_contracting_dims={1}',
        'dot(a,b), lhs_contracting_dims={-1}, rhs_contracting_dims={0}',
    ]
    W = 'window={size=3x3}, dim_labels=b01f_01io->b01f'
    L += [
        f'convolution(g, k), {W}',
        f'convolution(gi, ki), {W}',
        f'convolution(g, ki), {W}',
        f'convolution(gi,k), {W}',
        f'convolution(hg,k), {W}',
        'convolution(g, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f',
        'convolution(g, k), window={size=3x3 stride=2x2}, dim_labels=b01f_01io->b01f',
        'convolution(g, k), window={size=3x3 stride=0x2}, dim_labels=b01f_01io->b01f',
        'convolution(g, k), window={size=3x3 lhs_dilate=0x1}, dim_labels=b01f_01io->b01f',
        'convolution(g, k), window={size=3x3 rhs_dilate=-1x1}, dim_labels=b01f_01io->b01f',
        'convolution(g, k), window={size=3x3 lhs_dilate=2x3 rhs_dilate=2x2}, dim_labels=b01f_01io->b01f',
        'convolution(g, k), window={size=2x3}, dim_labels=b01f_01io->b01f',
        'convolution(g, k), window={size=3x3 pad=-4_-4x0_0}, dim_labels=b01f_01io->b01f',
        'convolution(g, k), window={size=3x3 pad=-1_-1x0_0}, dim_labels=b01f_01io->b01f',
        'convolution(g, k), window={size=3x3 rhs_dilate=5x5}, dim_labels=b01f_01io->b01f',
        'convolution(g, k0), window={size=0x3}, dim_labels=b01f_01io->b01f',
        'convolution(g0, k), window={size=3x3}, dim_labels=b01f_01io->b01f',
        'convolution(g0, k), window={size=3x3 pad=2_2x0_0}, dim_labels=b01f_01io->b01f',
        'convolution(g, k), window={size=3x3}, dim_labels=b01f_01oi->b01f',
        'convolution(g, k), window={size=3x3}, dim_labels=bf01_01io->b01f',
        'convolution(g, k), window={size=3x3}, dim_labels=b01f_01io->bf01',
        'convolution(g, k), window={size=3x3}, dim_labels=b01f_01io->b01f, feature_group_count=2',
        'convolution(g, k), window={size=3x3}, dim_labels=b01f_01oi->b01f, feature_group_count=2',
        'convolution(g, k), window={size=3x3}, dim_labels=b01f_01io->b01f, batch_group_count=2',
        'convolution(g, k), window={size=3x3}, dim_labels=f01b_01io->b01f, batch_group_count=2',
        'convolution(g, k), window={size=3x3}, dim_labels=b01f_01io->b01f, feature_group_count=0',
        'convolution(g, k), window={size=3x3}, dim_labels=b01f_01io->b01f, feature_group_count=-1',
        'convolution(g, k), window={size=3}, dim_labels=b01f_01io->b01f',
        'convolution(g, k), window={size=3x3}, dim_labels=b0f_0io->b0f',
        'convolution(a, b), dim_labels=bf_io->bf',
        'convolution(sq,sq), dim_labels=bf_io->bf',
        'convolution(x8,x8), dim_labels=bf_io->bf',
        'convolution(pm,pm), dim_labels=bf_io->bf',
        'convolution(c64m,c64m), dim_labels=bf_io->bf',
        'convolution(g, k), dim_labels=b01f_01io->b01f',
        'convolution(x8,u8m), dim_labels=bf_io->bf',
        'convolution(x8,i32m), dim_labels=bf_io->bf',
    ]
    T = ['x8', 'u8m', 'i32m', 'i64m', 'u32m', 'bf', 'h', 'sq', 'd', 'c64m', 'c128m', 'pm', 'f8m', 's4m']
    U = 'abs acos acosh asin asinh atanh cbrt ceil count-leading-zeros cosine cosh erf exponential exponential-minus-one floor imag is-finite log log-plus-one logistic negate not popcnt real round-nearest-afz round-nearest-even rsqrt sign sine sinh sqrt tan tanh'.split()
    for u in U:
        for t in T:
            L.append(f'{u}({t})')
        L.append(f'{u}(tp)')
    B = 'add and maximum minimum multiply or xor mulhi atan2 complex divide power remainder shift-left shift-right-arithmetic shift-right-logical subtract'.split()
    for u in B:
        for t in T:
            L.append(f'{u}({t},{t})')
        L += [
            f'{u}(sq,d)',
            f'{u}(sq,bf)',
            f'{u}(x8,i32m)',
            f'{u}(i32m,u32m)',
            f'{u}(a,b)',
            f'{u}(a,s)',
            f'{u}(sq,i32m)',
            f'{u}(tp,tp)',
        ]
    for t in T:
        L.append(f'compare({t},{t}), direction=LT')
        L.append(f'compare({t},{t}), direction=EQ')
    L += [
        'compare(a,b), direction=LT',
        'compare(sq,d), direction=LT',
        'compare(sq,bf), direction=LT',
        'compare(a,s), direction=LT',
        'compare(i32m,u32m), direction=LT',
        'compare(a,a), direction=LT, type=TOTALORDER',
        'compare(a,a), direction=LT, type=SIGNED',
        'compare(i32m,i32m), direction=LT, type=UNSIGNED',
        'compare(i32m,i32m), direction=LT, type=FLOAT',
    ]
    L += [
        'clamp(a,a,a)',
        'clamp(s,a,s)',
        'clamp(s,a,a)',
        'clamp(b,a,b)',
        'clamp(x1,a,x1)',
        'clamp(n,a,n)',
        'clamp(p,c,p)',
        'clamp(c,c,c)',
        'clamp(cx,cx,cx)',
        'clamp(bf,sq,bf)',
    ]
    L += [
        'select(c,a,a)',
        'select(p,a,a)',
        'select(c,a,b)',
        'select(a,a,a)',
        'select(c,s,s)',
        'select(p,tp,tp)',
        'select(n,a,a)',
        'select(pm,sq,d)',
        'select(pm,sq,bf)',
        'select(pm,sq,i32m)',
    ]
    L += [
        'reduce-precision(a), exponent_bits=5, mantissa_bits=10',
        'reduce-precision(i), exponent_bits=5, mantissa_bits=10',
        'reduce-precision(a), exponent_bits=0, mantissa_bits=10',
        'reduce-precision(a), exponent_bits=5, mantissa_bits=-1',
        'reduce-precision(a), exponent_bits=5, mantissa_bits=0',
        'reduce-precision(cx), exponent_bits=5, mantissa_bits=3',
    ]
    L += [
        'map(a), dimensions={0,1}, to_apply=neg',
        'map(a), to_apply=neg',
        'map(a), dimensions={0}, to_apply=neg',
        'map(a), dimensions={1,0}, to_apply=neg',
        'map(a,a), dimensions={0,1}, to_apply=sum',
        'map(a,b), dimensions={0,1}, to_apply=sum',
        'map(a), dimensions={0,1}, to_apply=sum',
        'map(i), dimensions={0}, to_apply=neg',
        'map(a), dimensions={0,1}, to_apply=pair',
        'map(a), dimensions={0,1}, to_apply=negm',
    ]
    L += [
        'tuple()',
        'tuple(a,tp)',
        'get-tuple-element(tp), index=0',
        'get-tuple-element(tp), index=2',
        'get-tuple-element(tp), index=-1',
        'get-tuple-element(a), index=0',
    ]
    L += [
        'transpose(a), dimensions={1,0}',
        'transpose(a), dimensions={0,0}',
        'transpose(a), dimensions={0}',
        'transpose(a), dimensions={0,1,2}',
        'transpose(a), dimensions={-1,0}',
        'transpose(s), dimensions={}',
    ]
    L += [
        'reverse(a), dimensions={0}',
        'reverse(a), dimensions={0,0}',
        'reverse(a), dimensions={2}',
        'reverse(a), dimensions={-1}',
        'reverse(a), dimensions={}',
    ]
    L += [
        'concatenate(a,a), dimensions={0}',
        'concatenate(a,a), dimensions={0,1}',
        'concatenate(a,a), dimensions={2}',
        'concatenate(a,b), dimensions={0}',
        'concatenate(a), dimensions={0}',
        'concatenate(s,s), dimensions={0}',
        'concatenate(a,cx), dimensions={0}',
        'concatenate(sq,bf), dimensions={0}',
        'concatenate(a,x1), dimensions={0}',
        'concatenate(a,one), dimensions={0}',
        'concatenate(x1,v2), dimensions={0}',
    ]
    L += [
        'pad(a,s), padding=1_1x0_0',
        'pad(a,s), padding=1_1',
        'pad(a,n), padding=1_1x0_0',
        'pad(a,a), padding=1_1x0_0',
        'pad(a,s), padding=-1_-1x0_0',
        'pad(a,s), padding=-2_-1x0_0',
        'pad(a,s), padding=0_0_2x0_0_-1',
        'pad(a,s), padding=0_0_2x0_0_3',
        'pad(e0,s), padding=0_0_1',
        'pad(e0,s), padding=1_0_1',
        'pad(s,s), padding=1_1',
    ]
    L += [
        'slice(a), slice={[0:2],[0:3]}',
        'slice(a), slice={[0:2]}',
        'slice(a), slice={[1:1],[0:3]}',
        'slice(a), slice={[2:1],[0:3]}',
        'slice(a), slice={[0:3],[0:3]}',
        'slice(a), slice={[-1:2],[0:3]}',
        'slice(a), slice={[0:2:2],[0:3:2]}',
        'slice(a), slice={[0:2:0],[0:3:2]}',
        'slice(a), slice={[0:2:-1],[0:3:2]}',
        'slice(a), slice={[0:2:5],[0:3:5]}',
        'slice(s), slice={}',
    ]
    L += [
        'dynamic-slice(a,n,n), dynamic_slice_sizes={1,3}',
        'dynamic-slice(a,n), dynamic_slice_sizes={1,3}',
        'dynamic-slice(a,i), dynamic_slice_sizes={1,3}',
        'dynamic-slice(a,gs), dynamic_slice_sizes={1,3}',
        'dynamic-slice(a,n,n), dynamic_slice_sizes={1,4}',
        'dynamic-slice(a,n,n), dynamic_slice_sizes={1}',
        'dynamic-slice(a,n,n), dynamic_slice_sizes={1,-1}',
        'dynamic-slice(a,n,n), dynamic_slice_sizes={0,0}',
        'dynamic-slice(a,s,s), dynamic_slice_sizes={1,3}',
        'dynamic-slice(a,n,us), dynamic_slice_sizes={1,3}',
        'dynamic-slice(a,us,us), dynamic_slice_sizes={1,3}',
        'dynamic-slice(a,ls,ls), dynamic_slice_sizes={1,3}',
        'dynamic-slice(a,p,p), dynamic_slice_sizes={1,3}',
        'dynamic-slice(s), dynamic_slice_sizes={}',
    ]
    L += [
        'dynamic-update-slice(a,a,n,n)',
        'dynamic-update-slice(a,b,n,n)',
        'dynamic-update-slice(a,one,n,n)',
        'dynamic-update-slice(a,x1,n,n)',
        'dynamic-update-slice(a,a,n)',
        'dynamic-update-slice(a,a,gs)',
        'dynamic-update-slice(a,c,n,n)',
        'dynamic-update-slice(sq,bf,n,n)',
        'dynamic-update-slice(a,a,n,us)',
        'dynamic-update-slice(a,a,s,s)',
        'dynamic-update-slice(s,s)',
    ]
    L += [
        'get-dimension-size(a), dimensions={0}',
        'get-dimension-size(a), dimensions={2}',
        'get-dimension-size(a), dimensions={-1}',
        'get-dimension-size(a), dimensions={0,1}',
        'set-dimension-size(a,n), dimensions={0}',
        'set-dimension-size(a,s), dimensions={0}',
        'set-dimension-size(a,i), dimensions={0}',
        'set-dimension-size(a,n), dimensions={2}',
        'set-dimension-size(a,us), dimensions={0}',
    ]
    L += [
        'copy(a)',
        'copy(tp)',
        'copy-start(a)',
        'broadcast(s), dimensions={}',
        'reshape(a)',
        'iota(), iota_dimension=0',
        'constant(1)',
        'partition-id()',
        'replica-id()',
    ]
    G = 'offset_dims={%s}, collapsed_slice_dims={%s}, start_index_map={%s}, index_vector_dim=%s, slice_sizes={%s}'
    for t in [
            ('1', '0', '0', '1', '1,3'),
            ('1', '0', '0', '0', '1,3'),
            ('1', '0', '0', '2', '1,3'),
            ('1', '0', '0', '-1', '1,3'),
            ('1', '0', '0,1', '1', '1,3'),
            ('1', '0', '2', '1', '1,3'),
            ('1', '0', '0', '1', '2,3'),
            ('1', '0', '0', '1', '1,4'),
            ('1', '0', '0', '1', '1,-1'),
            ('1', '0', '0', '1', '1'),
            ('1', '2', '0', '1', '1,3'),
            ('1', '', '0', '1', '1,3'),
            ('1,2', '', '0', '1', '1,3'),
            ('0,1', '', '0', '1', '1,3'),
            ('2,1', '', '0', '1', '1,3'),
            ('1,1', '', '0', '1', '1,3'),
            ('3', '0', '0', '1', '1,3'),
            ('0', '0', '0', '1', '1,3'),
            ('1', '1', '0', '1', '1,1'),
            ('', '0,1', '0', '1', '1,1'),
            ('', '1,0', '0', '1', '1,1'),
            ('1', '0', '0', '1', '0,3'),
            ('1', '0', '0', '1', '1,0'),
    ]:
        L.append('gather(a, i), ' + G % t)
        L.append('gather(a, i2), ' + G % t)
    L += [
        'gather(a,s), ' + G % ('1', '0', '0', '0', '1,3'),
        'gather(a,n), ' + G % ('0', '0', '0', '0', '1,3'),
        'gather(a,p), ' + G % ('0', '0', '0', '0', '1,3'),
        'gather(a,i2), ' + G % ('1', '0', '0,1', '1', '1,3'),
        'gather(a,i2), ' + G % ('', '0,1', '0,1', '1', '1,1'),
        'gather(a,i2), ' + G % ('', '0,1', '1,1', '1', '1,1'),
        'gather(a,gs), offset_dims={1}, collapsed_slice_dims={}, start_index_map={1}, index_vector_dim=1, slice_sizes={1,2}, operand_batching_dims={0}, start_indices_batching_dims={0}',
        'gather(a,i), offset_dims={1}, collapsed_slice_dims={}, start_index_map={1}, index_vector_dim=1, slice_sizes={1,2}, operand_batching_dims={0}, start_indices_batching_dims={0}',
        'gather(a,gs), offset_dims={1}, collapsed_slice_dims={}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,2}, operand_batching_dims={0}, start_indices_batching_dims={0}',
        'gather(a,gs), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={1}, index_vector_dim=1, slice_sizes={1,2}, operand_batching_dims={0}, start_indices_batching_dims={0}',
        'gather(a,gs), offset_dims={1}, collapsed_slice_dims={}, start_index_map={1}, index_vector_dim=1, slice_sizes={2,2}, operand_batching_dims={0}, start_indices_batching_dims={0}',
        'gather(a,gs), offset_dims={1}, collapsed_slice_dims={}, start_index_map={1}, index_vector_dim=1, slice_sizes={1,2}, operand_batching_dims={0}, start_indices_batching_dims={1}',
    ]
    S = 'update_window_dims={%s}, inserted_window_dims={%s}, scatter_dims_to_operand_dims={%s}, index_vector_dim=%s, to_apply=sum'
    for t in [
            ('1', '0', '0', '1'),
            ('1', '0', '0', '0'),
            ('1', '0', '0', '2'),
            ('1', '0', '2', '1'),
            ('0', '0', '0', '1'),
            ('', '0,1', '0', '1'),
            ('1', '1', '0', '1'),
            ('0,1', '', '0', '1'),
            ('1', '0', '0,1', '1'),
            ('1', '2', '0', '1'),
            ('2', '0', '0', '1'),
            ('1', '0', '0', '-1'),
    ]:
        L.append('scatter(sq,i3,upd), ' + S % t)
        L.append('scatter(b,i,a), ' + S % t)
        L.append('scatter(a,i,sq), ' + S % t)
        L.append('scatter(a,i2,a), ' + S % t)
        L.append('scatter(sq,i,row), ' + S % t)
        L.append('scatter(a,gs,a), ' + S % t)
    L += [
        'scatter(v2,gs,v2), ' + S % ('', '0', '0', '1'),
        'scatter(v2,i,v2), ' + S % ('', '0', '0', '1'),
        'scatter(v2,gs,x1), ' + S % ('', '0', '0', '1'),
        'scatter(v2,gs,hv2), ' + S % ('', '0', '0', '1'),
        'scatter(v2,gs,gs), ' + S % ('', '0', '0', '1'),
        'scatter(gs,gs,gs), ' + S % ('', '0', '0', '1'),
        'scatter(v2,v2,v2), ' + S % ('', '0', '0', '1'),
        'scatter(gs,gs,gs), ' + (S % ('', '0', '0', '1')).replace('sum', 'isum'),
        'scatter(v2,gs,gs,v2,gs), ' + (S % ('', '0', '0', '1')).replace('sum', 'sum2'),
        'scatter(v2,gs,gs,v2,gs), ' + S % ('', '0', '0', '1'),
        'scatter(v2,gs,v2), ' + (S % ('', '0', '0', '1')).replace('=sum', '=less'),
        'scatter(v2,gs,v2), ' + (S % ('', '0', '0', '1')).replace('=sum', '=neg'),
        'scatter(v2,gs), ' + S % ('', '0', '0', '1'),
        'scatter(v2,v2,gs,v2), ' + S % ('', '0', '0', '1'),
    ]
    L += [
        'reduce(a,s), dimensions={0}, to_apply=sum',
        'reduce(a,s), dimensions={0,1}, to_apply=sum',
        'reduce(a,s), dimensions={1,0}, to_apply=sum',
        'reduce(a,s), dimensions={2}, to_apply=sum',
        'reduce(a,s), dimensions={0,0}, to_apply=sum',
        'reduce(a,s), dimensions={-1}, to_apply=sum',
        'reduce(a,n), dimensions={0}, to_apply=sum',
        'reduce(i,s), dimensions={0}, to_apply=sum',
        'reduce(i,n), dimensions={0}, to_apply=isum',
        'reduce(a,s), dimensions={0}, to_apply=neg',
        'reduce(a,s), dimensions={0}, to_apply=less',
        'reduce(a,x1), dimensions={0}, to_apply=sum',
        'reduce(x1,i,s,n), dimensions={0}, to_apply=sum2',
        'reduce(x1,gs,s,n), dimensions={0}, to_apply=sum2',
        'reduce(x1,i,s), dimensions={0}, to_apply=sum2',
        'reduce(x1,i,n,s), dimensions={0}, to_apply=sum2',
        'reduce(x1,i,s,n), dimensions={0}, to_apply=sum',
        'reduce(bf,s), dimensions={0}, to_apply=sum',
        'reduce(d,s), dimensions={0}, to_apply=sum',
        'reduce(s,s), dimensions={}, to_apply=sum',
        'reduce(cx,cs), dimensions={0}, to_apply=sum',
        'reduce(tp,s), dimensions={0}, to_apply=sum',
    ]
    for w in [
            'size=2x2',
            'size=2x2 stride=2x2',
            'size=2x2 stride=0x1',
            'size=0x2',
            'size=2x2 pad=1_1x0_0',
            'size=2x2 lhs_dilate=2x2',
            'size=2x2 lhs_dilate=0x1',
            'size=2x2 rhs_dilate=2x1',
            'size=2x2 rhs_dilate=0x1',
            'size=2',
            'size=2x2x2',
            'size=3x4',
            'size=4x4',
            'size=2x2 pad=-1_0x0_0',
            'size=-1x2',
    ]:
        L.append('reduce-window(a,s), window={%s}, to_apply=sum' % w)
        L.append('reduce-window(i23,n), window={%s}, to_apply=isum' % w)
        L.append('reduce-window(a,i23,s,n), window={%s}, to_apply=sum2' % w)
    L += [
        'reduce-window(a,s), to_apply=sum',
        'reduce-window(a,n), window={size=2x2}, to_apply=sum',
        'reduce-window(a,s), window={size=2x2}, to_apply=neg',
        'reduce-window(a,s), window={size=2x2}, to_apply=less',
        'reduce-window(a,i,s,n), window={size=2x2}, to_apply=sum2',
        'reduce-window(bf,s), window={size=2x2}, to_apply=sum',
        'reduce-window(s,s), to_apply=sum',
        'reduce-window(s,s), window={}, to_apply=sum',
    ]
    SS = 'select-and-scatter(%s), window={%s}, select=%s, scatter=%s'
    L += [SS % t for t in [('sq,sq,s', 'size=1x1', 'less', 'sum'), ('ab,a,s', 'size=2x2 stride=2x2', 'less', 'sum'), ('ab,b,s', 'size=2x2 stride=2x2', 'less', 'sum'), ('ab,a,n', 'size=2x2 stride=2x2', 'less', 'sum'), ('ab,a,s', 'size=2x2 stride=2x2', 'sum', 'sum'), ('ab,a,s', 'size=2x2 stride=2x2', 'less', 'less'), ('ab,a,s', 'size=2x2 stride=2x2', 'less', 'neg'), ('ab,a,s', 'size=2x2', 'less', 'sum'), ('ab,a,a', 'size=2x2 stride=2x2', 'less', 'sum'), ('ab,i23,s', 'size=2x2 stride=2x2', 'less', 'sum'), ('ab,a,s', 'size=2', 'less', 'sum'), ('ab,a,s', 'size=0x2 stride=2x2', 'less', 'sum')]]
    L += [
        'sort(a), dimensions={0}, to_apply=less',
        'sort(a), dimensions={2}, to_apply=less',
        'sort(a), dimensions={-1}, to_apply=less',
        'sort(a), dimensions={0,1}, to_apply=less',
        'sort(a), to_apply=less',
        'sort(a), dimensions={0}, to_apply=sum',
        'sort(a), dimensions={0}, to_apply=neg',
        'sort(x1,i), dimensions={0}, to_apply=less2',
        'sort(x1,i), dimensions={0}, to_apply=less',
        'sort(x1,gs), dimensions={0}, to_apply=less2',
        'sort(i,i), dimensions={0}, to_apply=less2',
        'sort(i), dimensions={0}, to_apply=less',
        'sort(tp), dimensions={0}, to_apply=less',
        'sort(s), dimensions={0}, to_apply=less',
        'sort(a), dimensions={}, to_apply=less',
    ]
    L += [
        'topk(a), k=2, largest=true',
        'topk(a), k=3, largest=true',
        'topk(a), k=4, largest=true',
        'topk(a), k=0, largest=true',
        'topk(a), k=-1, largest=true',
        'topk(s), k=1, largest=true',
        'topk(cx), k=1, largest=true',
        'topk(i), k=1, largest=true',
    ]
    for ty in ['FFT', 'IFFT', 'RFFT', 'IRFFT']:
        for op, le in [
                ('c8', '8'),
                ('c8', '4'),
                ('fv8', '8'),
                ('fv8', '4'),
                ('c5', '8'),
                ('c5', '9'),
                ('c5', '10'),
                ('c5', '7'),
                ('c57', '7,8'),
                ('c57', '7,9'),
                ('c57', '8'),
                ('c57', '7,7'),
                ('f16v', '5,8'),
                ('f16v', '8'),
                ('d8', '8'),
                ('h8', '8'),
                ('e0', '0'),
                ('ce0', '0'),
                ('ce0', '1'),
                ('c8', '-8'),
                ('c8', ''),
                ('c57', '1,7,8'),
                ('gi', '6,6'),
                ('cs', ''),
                ('c64m', '4,4'),
                ('c128m', '4,4'),
                ('c128m', '4,6'),
        ]:
            L.append(f'fft({op}), fft_type={ty}, fft_length={{{le}}}')
    L += [
        'cholesky(sq), lower=true',
        'cholesky(a)',
        'cholesky(x1)',
        'cholesky(sqb)',
        'cholesky(i32m)',
        'cholesky(c64m)',
        'cholesky(bf)',
        'cholesky(sqr)',
    ]
    for o in [
            'sq,sq',
            'sq,a',
            'sqb,sqr',
            'sq,sqb',
            'sq,d',
            'i32m,i32m',
            'c64m,c64m',
            'sq,x1',
            'a,a',
            'sqr,sqb',
            'bf,bf',
    ]:
        for l in ['true', 'false']:
            L.append(f'triangular-solve({o}), left_side={l}, lower=true, transpose_a=NO_TRANSPOSE')
            L.append(f'triangular-solve({o}), left_side={l}, lower=true, transpose_a=ADJOINT, unit_diagonal=true')
    for o in [
            'g,v2,v2',
            'g,hv2,bv2',
            'g,dv2,v2',
            'hg,v2,v2',
            'g,x1,v2',
            'g,v2,x1',
            'gi,v2,v2',
            'g,gs,v2',
            'g,a,v2',
            's,v2,v2',
    ]:
        for f in [3, -1, 4, 0]:
            L.append(f'batch-norm-training({o}), epsilon=0.1, feature_index={f}')
    for o in [
            'g,v2,v2,v2,v2',
            'g,hv2,bv2,v2,dv2',
            'hg,v2,v2,v2,v2',
            'g,v2,v2,x1,v2',
            'g,v2,v2,v2,x1',
            'gi,v2,v2,v2,v2',
            'g,v2,v2,gs,v2',
            's,v2,v2,v2,v2',
    ]:
        for f in [3, -1, 4]:
            L.append(f'batch-norm-inference({o}), epsilon=0.1, feature_index={f}')
    for o in [
            'g,v2,v2,v2,g',
            'g,v2,v2,v2,hg',
            'hg,v2,v2,v2,g',
            'g,v2,v2,x1,g',
            'g,x1,v2,v2,g',
            'g,v2,v2,v2,k',
            'gi,v2,v2,v2,gi',
            'g,v2,v2,v2,gi',
            'g,gs,v2,v2,g',
    ]:
        for f in [3, -1, 4]:
            L.append(f'batch-norm-grad({o}), epsilon=0.1, feature_index={f}')
    return L


def program(instruction):
    text = COMPUTATIONS + "ENTRY e {\n"
    for number, parameter in enumerate(PARAMETERS.split(";")):
        text += f"  {' '.join(parameter.split())} parameter({number})\n"
    return text + f"  ROOT q = {instruction}\n}}\n"


def shape_of(text):
    """The shape of q, without layouts; None where it is not there."""
    found = re.search(r"ROOT %?q\S* = (.*)", text)
    if not found:
        return None
    plain = re.sub(r"\{[^{}]*\}|/\*.*?\*/", "", found[1])
    return re.match(r"(\(.*?\)|\S+) [a-z]", plain)[1].replace(" ", "")


def xla_shape(text):
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        os.dup2(os.open("/dev/null", os.O_WRONLY), 2)
        try:
            answer = shape_of(_hlo.hlo_module_from_text(text).to_string())
        except Exception:
            answer = None
        os.write(write, json.dumps(answer).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        answer = pipe.read()
    os.waitpid(pid, 0)
    return json.loads(answer) if answer else None


def own_shape(hlocc, text):
    done = subprocess.run([hlocc, "opt", "-"], input=text, capture_output=True, text=True, timeout=20)
    return shape_of(done.stdout) if done.returncode == 0 else None


def main():
    hlocc, verbose = sys.argv[1], "-v" in sys.argv
    if not xla_shape(program("copy(a)")) or not own_shape(hlocc, program("copy(a)")):
        sys.exit("the program around the instructions is refused")
    same = known = differ = 0
    for instruction in instructions():
        text = program(instruction)
        theirs, ours = xla_shape(text), own_shape(hlocc, text)
        why = [reason for pattern, reason in KNOWN if re.search(pattern, instruction)]
        if theirs == ours:
            same += 1
        elif why and (ours is None or theirs is None):
            known += 1
        else:
            differ += 1
        if theirs != ours and (verbose or not why or (ours and theirs)):
            print(f"{instruction}\n    XLA {theirs}, hlocc {ours}" + (f" ({why[0]})" if why else ""))
    print(f"{same} the same, {known} differ as known, {differ} differ")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
