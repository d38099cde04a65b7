/* Eigenvectors and singular vectors by Jacobi's rotations as HLO for template.h, see
 * lapack_templates.h. Rows i and i + $H of a matrix of $E rows are a pair; all pairs are turned at
 * once, and then rows move on (Brent and Luk, 1985) such that $E - 1 steps, a sweep, bring each
 * together with each other and every row back to its place. */
#ifndef PASSES_LAPACK_JACOBI_H
#define PASSES_LAPACK_JACOBI_H

#include "passes/lapack_templates.h"

/* The rotations [c, -sp; conj(sp), c] that make apq zero, with a real diagonal app, aqq. What is
 * left of a row is row - (1 - c) row, so that small turns round little; d is 1 - c. */
#define JACOBI_ROTATION                                                                            \
    " zeros_h = $R[$B,$H] broadcast(zero_r), dimensions={}\n"                                      \
    " ones_h = $R[$B,$H] broadcast(one_r), dimensions={}\n"                                        \
    " length = abs(apq)\n"                                                                         \
    " flat = compare(length, zeros_h), direction=EQ\n"                                             \
    " length2 = select(flat, ones_h, length)\n"                                                    \
    " phase = divide(apq, $T[$B,$H] convert(length2))\n"                                           \
    " theta = divide(subtract(aqq, app), add(length2, length2))\n"                                 \
    " minus = compare(theta, zeros_h), direction=LT\n"                                             \
    " sign = select(minus, negate(ones_h), ones_h)\n"                                              \
    " root = sqrt(add(multiply(theta, theta), ones_h))\n"                                          \
    " t = select(flat, zeros_h, divide(sign, add(abs(theta), root)))\n"                            \
    " cosine = divide(ones_h, sqrt(add(multiply(t, t), ones_h)))\n"                                \
    " sine = multiply(t, cosine)\n"                                                                \
    " away = divide(multiply(sine, sine), add(ones_h, cosine))\n"                                  \
    " d = $T[$B,$H] convert(away)\n"                                                               \
    " sp = multiply(phase, $T[$B,$H] convert(sine))\n"                                             \
    " sc = multiply($conj(phase), $T[$B,$H] convert(sine))\n"
#define JACOBI_UP(x, width) " up_" x " = slice(" x "), slice={[0:$B],[0:$H],[0:" width "]}\n"
#define JACOBI_DOWN(x, width) " down_" x " = slice(" x "), slice={[0:$B],[$H:$E],[0:" width "]}\n"
/* Rows of x turned: c up - p down, q up + c down. */
#define JACOBI_ROWS(x, width, p, q)                                                                \
    " d_" x " = $T[$B,$H," width "] broadcast(d), dimensions={0,1}\n"                              \
    " p_" x " = $T[$B,$H," width "] broadcast(" p "), dimensions={0,1}\n"                          \
    " q_" x " = $T[$B,$H," width "] broadcast(" q "), dimensions={0,1}\n"                          \
    " less_" x " = add(multiply(d_" x ", up_" x "), multiply(p_" x ", down_" x "))\n"              \
    " top_" x " = subtract(up_" x ", less_" x ")\n"                                                \
    " more_" x " = subtract(multiply(q_" x ", up_" x "), multiply(d_" x ", down_" x "))\n"         \
    " bottom_" x " = add(down_" x ", more_" x ")\n"                                                \
    " turned_" x " = concatenate(top_" x ", bottom_" x "), dimensions={1}\n"
#define JACOBI_COLUMNS(x, y)                                                                       \
    " left = slice(" x "), slice={[0:$B],[0:$E],[0:$H]}\n"                                         \
    " right = slice(" x "), slice={[0:$B],[0:$E],[$H:$E]}\n"                                       \
    " d_right = $T[$B,$E,$H] broadcast(d), dimensions={0,2}\n"                                     \
    " sc_right = $T[$B,$E,$H] broadcast(sc), dimensions={0,2}\n"                                   \
    " sp_right = $T[$B,$E,$H] broadcast(sp), dimensions={0,2}\n"                                   \
    " west = subtract(left, add(multiply(d_right, left), multiply(sc_right, right)))\n"            \
    " east = add(right, subtract(multiply(sp_right, left), multiply(d_right, right)))\n"           \
    " " y " = concatenate(west, east), dimensions={2}\n"
/* Starts the loop over sweeps that does at most 20 of them. */
#define JACOBI_SWEEP                                                                               \
    "sweep { state = $STATE parameter(0)\n nought = s32[] constant(0)\n"                           \
    " unit = s32[] constant(1)\n"                                                                  \
    " count = get-tuple-element(state), index=0\n next = add(count, unit)\n"                       \
    " a = get-tuple-element(state), index=1\n w = get-tuple-element(state), index=2\n"
#define JACOBI_MORE                                                                                \
    "more_sweeps { state = $STATE parameter(0)\n"                                                  \
    " count = get-tuple-element(state), index=0\n"                                                 \
    " few = compare(count, s32[] constant(20)), direction=LT\n"                                    \
    " zero_r = $R[] constant(0)\n never = pred[] constant(false)\n"
/* The numbers' largest extent, which is divided by; that of zeros is 1. */
#define JACOBI_SCALE(x, shape)                                                                     \
    " widest = reduce($extent(" x "), zero_r), dimensions={1,2}, to_apply=most\n"                  \
    " one_r = $R[] constant(1)\n"                                                                  \
    " zeros_r = $R[$B] broadcast(zero_r), dimensions={}\n"                                         \
    " ones_r = $R[$B] broadcast(one_r), dimensions={}\n"                                           \
    " empty = compare(widest, zeros_r), direction=EQ\n"                                            \
    " scale = select(empty, ones_r, widest)\n"                                                     \
    " scale3 = $R[" shape "] broadcast(scale), dimensions={0}\n"                                   \
    " scaled = divide(" x ", $T[" shape "] convert(scale3))\n"
#define JACOBI_PLACES                                                                              \
    " row3 = s32[$B,$E,$E] iota(), iota_dimension=1\n"                                             \
    " column3 = s32[$B,$E,$E] iota(), iota_dimension=2\n"                                          \
    " eye = compare(row3, column3), direction=EQ\n"

/* Hermitian matrices: eigenvalues ascending, vectors in columns. */
static const char lapack_syevd[] = LAPACK_SHARED
    "before { a = $R[] parameter(0)\n b = $R[] parameter(1)\n"
    " c = $T[] parameter(2)\n d = $T[] parameter(3)\n ROOT r = compare(a, b), direction=LT "
    "}\n" LAPACK_STEP " a = get-tuple-element(state), index=1\n"
    " w = get-tuple-element(state), index=2\n" JACOBI_UP("a", "$E") JACOBI_DOWN("a", "$E")
        JACOBI_UP("w", "$E") JACOBI_DOWN("w", "$E") JACOBI_PLACES
    " half = s32[$B,$E,$E] broadcast(s32[] constant($H)), dimensions={}\n"
    " partner = compare(column3, add(row3, half)), direction=EQ\n"
    " zeros3 = $T[$B,$E,$E] broadcast(zero_t), dimensions={}\n"
    " diagonal = reduce(select(eye, a, zeros3), zero_t), dimensions={2}, to_apply=add\n"
    " pairs = reduce(select(partner, a, zeros3), zero_t), dimensions={2}, to_apply=add\n"
    " app_t = slice(diagonal), slice={[0:$B],[0:$H]}\n app = $realpart(app_t)\n"
    " aqq_t = slice(diagonal), slice={[0:$B],[$H:$E]}\n aqq = $realpart(aqq_t)\n"
    " apq = slice(pairs), slice={[0:$B],[0:$H]}\n" JACOBI_ROTATION JACOBI_ROWS("a", "$E", "sp",
                                                                               "sc")
        JACOBI_ROWS("w", "$E", "sc", "sp") JACOBI_COLUMNS(
            "turned_a",
            "both") " partner2 = compare(row3, add(column3, half)), direction=EQ\n"
                    " clean = select(or(partner, partner2), zeros3, both)\n"
                    " moved = $shufflerows(clean)\n"
                    " a2 = $shufflecolumns(moved)\n"
                    " w2 = $shufflerows(turned_w)\n"
                    " ROOT r = tuple(next, a2, w2) }\n" JACOBI_SWEEP
                    " start = tuple(nought, a, w)\n"
                    " done = while(start), condition=more_steps, body=step\n"
                    " a2 = get-tuple-element(done), index=1\n w2 = get-tuple-element(done), "
                    "index=2\n"
                    " ROOT r = tuple(next, a2, w2) }\n" JACOBI_MORE
                    " a = get-tuple-element(state), index=1\n" JACOBI_PLACES
                    " squares = $square(a)\n"
                    " none = $R[$B,$E,$E] broadcast(zero_r), dimensions={}\n"
                    " off = reduce(select(eye, none, squares), zero_r), dimensions={1,2}, "
                    "to_apply=add_real\n"
                    " all = reduce(squares, zero_r), dimensions={1,2}, to_apply=add_real\n"
                    " small = $R[$B] broadcast($R[] constant(1e-11)), dimensions={}\n"
                    " open = compare(off, multiply(all, small)), direction=GT\n"
                    " some = reduce(open, never), dimensions={0}, to_apply=any\n"
                    " ROOT r = and(few, some) }\n" LAPACK_ENTRY
                    " across = transpose($conj(a)), dimensions={0,2,1}\n"
                    " row_a = s32[$B,$M,$N] iota(), iota_dimension=1\n"
                    " column_a = s32[$B,$M,$N] iota(), iota_dimension=2\n"
                    " stays = compare(row_a, column_a), direction=$SIDE\n"
                    " on = compare(row_a, column_a), direction=EQ\n"
                    " real_a = $T[$B,$M,$N] convert($re(a))\n"
                    " whole = select(on, real_a, select(stays, a, across))\n" JACOBI_SCALE(
                        "whole", "$B,$M,$N") JACOBI_PLACES
    " padded = pad(scaled, zero_t), padding=0_0x0_$PADx0_$PAD\n"
    " w = $T[$B,$E,$E] convert(eye)\n"
    " start = tuple(nought, padded, w)\n"
    " done = while(start), condition=more_sweeps, body=sweep\n"
    " a2 = get-tuple-element(done), index=1\n w2 = get-tuple-element(done), index=2\n"
    " zeros3 = $T[$B,$E,$E] broadcast(zero_t), dimensions={}\n"
    " diagonal = reduce(select(eye, a2, zeros3), zero_t), dimensions={2}, to_apply=add\n"
    " size = s32[$B,$E] broadcast(s32[] constant($N)), dimensions={}\n"
    " beyond = compare(s32[$B,$E] iota(), iota_dimension=1, size), direction=GE\n"
    " far = $R[$B,$E] broadcast($R[] constant(inf)), dimensions={}\n"
    " keys = select(beyond, far, $re(diagonal))\n"
    " keys3 = $R[$B,$E,$E] broadcast(keys), dimensions={0,2}\n"
    " v = transpose(w2), dimensions={0,2,1}\n"
    " sorted = sort(keys3, v), dimensions={2}, is_stable=true, to_apply=before\n"
    " keys4 = get-tuple-element(sorted), index=0\n v4 = get-tuple-element(sorted), index=1\n"
    " values = $R[$B,$N] reshape(slice(keys4), slice={[0:$B],[0:1],[0:$N]})\n"
    " scale2 = $R[$B,$N] broadcast(scale), dimensions={0}\n"
    " vectors = $O0 reshape(slice(v4), slice={[0:$B],[0:$N],[0:$N]})\n"
    " values2 = $O1 reshape(multiply(values, scale2))\n"
    "$RESULT";

/* Singular values descending, with vectors: w has the columns of the taller of a matrix and its
 * adjoint as rows, turned until they are orthogonal (Hestenes, 1958); v collects the turns. Then
 * the lengths of w's rows are the values. What is too short to have a direction, and rows up to
 * $U that are wanted besides, are made orthogonal to the others. */
static const char lapack_gesdd[] = LAPACK_SHARED
    "before { a = $R[] parameter(0)\n b = $R[] parameter(1)\n"
    " c = $T[] parameter(2)\n d = $T[] parameter(3)\n ROOT r = compare(a, b), direction=GT }\n"
    "least { a = s32[] parameter(0)\n b = s32[] parameter(1)\n ROOT r = minimum(a, b) "
    "}\n" LAPACK_STEP " a = get-tuple-element(state), index=1\n"
    " w = get-tuple-element(state), index=2\n"
    " worst = get-tuple-element(state), index=3\n" JACOBI_UP("a", "$M") JACOBI_DOWN("a", "$M")
        JACOBI_UP("w", "$E") JACOBI_DOWN(
            "w",
            "$E") " app = reduce($square(up_a), zero_r), dimensions={2}, to_apply=add_real\n"
                  " aqq = reduce($square(down_a), zero_r), dimensions={2}, to_apply=add_real\n"
                  " apq = reduce(multiply($conj(up_a), down_a), zero_t), dimensions={2}, "
                  "to_apply=add\n" JACOBI_ROTATION JACOBI_ROWS("a", "$M", "sc", "sp") JACOBI_ROWS(
                      "w", "$E", "sc",
                      "sp") " ratio = divide(length, multiply(sqrt(app), sqrt(aqq)))\n"
                            " ratio2 = select(flat, zeros_h, ratio)\n"
                            " worst2 = maximum(worst, reduce(ratio2, zero_r), dimensions={1}, "
                            "to_apply=most)\n"
                            " a2 = $shufflelong(turned_a)\n"
                            " w2 = $shufflerows(turned_w)\n"
                            " ROOT r = tuple(next, a2, w2, worst2) }\n" JACOBI_SWEEP
                            " zero_r = $R[] constant(0)\n worst = $R[$B] broadcast(zero_r), "
                            "dimensions={}\n"
                            " start = tuple(nought, a, w, worst)\n"
                            " done = while(start), condition=more_steps, body=step\n"
                            " a2 = get-tuple-element(done), index=1\n w2 = "
                            "get-tuple-element(done), index=2\n"
                            " worst2 = get-tuple-element(done), index=3\n"
                            " ROOT r = tuple(next, a2, w2, worst2) }\n" JACOBI_MORE
                            " worst = get-tuple-element(state), index=3\n"
                            " small = $R[$B] broadcast($R[] constant(1e-5)), dimensions={}\n"
                            " open = compare(worst, small), direction=GT\n"
                            " some = reduce(open, never), dimensions={0}, to_apply=any\n"
                            " ROOT r = and(few, some) }\n"
                            "more_rows { state = (s32[], $T[$B,$U,$M], pred[$B,$U]) parameter(0)\n"
                            " j = get-tuple-element(state), index=0\n"
                            " end = s32[] constant($U)\n ROOT r = compare(j, end), direction=LT }\n"
                            /* Row j, where it is wanted: of the unit vectors the one that is
                               covered least. */
                            "complete { state = (s32[], $T[$B,$U,$M], pred[$B,$U]) parameter(0)\n"
                            " j = get-tuple-element(state), index=0\n u = "
                            "get-tuple-element(state), index=1\n"
                            " wanted = get-tuple-element(state), index=2\n" LAPACK_CONSTANTS
                            " place = s32[$B,$U] iota(), iota_dimension=1\n"
                            " j2 = s32[$B,$U] broadcast(j), dimensions={}\n"
                            " known = compare(place, j2), direction=LT\n"
                            " known3 = pred[$B,$U,$M] broadcast(known), dimensions={0,1}\n"
                            " basis = select(known3, u, $T[$B,$U,$M] broadcast(zero_t), "
                            "dimensions={})\n"
                            " covered = reduce($square(basis), zero_r), dimensions={1}, "
                            "to_apply=add_real\n"
                            " left = negate(covered)\n"
                            " at = s32[$B,$M] iota(), iota_dimension=1\n"
                            " last = s32[] constant($M)\n"
                            " best = reduce(left, at, $R[] constant(-inf), last), dimensions={1}, "
                            "to_apply=pick\n"
                            " best_at = get-tuple-element(best), index=1\n"
                            " axis = compare(at, s32[$B,$M] broadcast(best_at), dimensions={0}), "
                            "direction=EQ\n"
                            " y = $T[$B,$M] convert(axis)\n"
                            " cb = multiply($conj(basis), $T[$B,$U,$M] broadcast(y), "
                            "dimensions={0,2})\n"
                            " parts = reduce(cb, zero_t), dimensions={2}, to_apply=add\n"
                            " parts3 = $T[$B,$U,$M] broadcast(parts), dimensions={0,1}\n"
                            " y2 = subtract(y, reduce(multiply(parts3, basis), zero_t), "
                            "dimensions={1}, to_apply=add)\n"
                            " cb2 = multiply($conj(basis), $T[$B,$U,$M] broadcast(y2), "
                            "dimensions={0,2})\n"
                            " parts2 = reduce(cb2, zero_t), dimensions={2}, to_apply=add\n"
                            " parts4 = $T[$B,$U,$M] broadcast(parts2), dimensions={0,1}\n"
                            " y3 = subtract(y2, reduce(multiply(parts4, basis), zero_t), "
                            "dimensions={1}, to_apply=add)\n"
                            " size = sqrt(reduce($square(y3), zero_r), dimensions={1}, "
                            "to_apply=add_real)\n"
                            " y4 = divide(y3, $T[$B,$M] convert($R[$B,$M] broadcast(size), "
                            "dimensions={0}))\n"
                            " now = and(wanted, compare(place, j2), direction=EQ)\n"
                            " now3 = pred[$B,$U,$M] broadcast(now), dimensions={0,1}\n"
                            " basis2 = select(now3, $T[$B,$U,$M] broadcast(y4), dimensions={0,2}, "
                            "u)\n"
                            " ROOT r = tuple(add(j, unit), basis2, wanted) }\n"
                            "ENTRY main { nought = s32[] constant(0)\n given = $IN parameter(0)\n"
                            " zero_t = $T[] constant($zero)\n zero_r = $R[] constant(0)\n"
                            "$BEGIN" JACOBI_SCALE("tall", "$B,$N,$M") JACOBI_PLACES
    " a = pad(scaled, zero_t), padding=0_0x0_$PADx0_0\n"
    " w = $T[$B,$E,$E] convert(eye)\n"
    " worst = $R[$B] broadcast($R[] constant(inf)), dimensions={}\n"
    " start = tuple(nought, a, w, worst)\n"
    " done = while(start), condition=more_sweeps, body=sweep\n"
    " a2 = get-tuple-element(done), index=1\n w2 = get-tuple-element(done), index=2\n"
    " squares = reduce($square(a2), zero_r), dimensions={2}, to_apply=add_real\n"
    " count = s32[$B,$E] broadcast(s32[] constant($N)), dimensions={}\n"
    " beyond = compare(s32[$B,$E] iota(), iota_dimension=1, count), direction=GE\n"
    " behind = $R[$B,$E] broadcast($R[] constant(-1)), dimensions={}\n"
    " keys = select(beyond, behind, sqrt(squares))\n"
    " keys_m = $R[$B,$E,$M] broadcast(keys), dimensions={0,1}\n"
    " keys_e = $R[$B,$E,$E] broadcast(keys), dimensions={0,1}\n"
    " sorted = sort(keys_m, a2), dimensions={1}, is_stable=true, to_apply=before\n"
    " sorted_w = sort(keys_e, w2), dimensions={1}, is_stable=true, to_apply=before\n"
    " keys3 = get-tuple-element(sorted), index=0\n a3 = get-tuple-element(sorted), index=1\n"
    " w3 = get-tuple-element(sorted_w), index=1\n"
    " s = $R[$B,$N] reshape(slice(keys3), slice={[0:$B],[0:$N],[0:1]})\n"
    " a4 = slice(a3), slice={[0:$B],[0:$N],[0:$M]}\n"
    " v = slice(w3), slice={[0:$B],[0:$N],[0:$N]}\n"
    " first = $R[$B] reshape(slice(s), slice={[0:$B],[0:1]})\n"
    " limit = multiply(first, $R[$B] broadcast($R[] constant(1e-7)), dimensions={})\n"
    " short = compare(s, $R[$B,$N] broadcast(limit), dimensions={0}), direction=LE\n"
    " ones_n = $R[$B,$N] broadcast(one_r), dimensions={}\n"
    " divisor = $R[$B,$N,$M] broadcast(select(short, ones_n, s)), dimensions={0,1}\n"
    " u = divide(a4, $T[$B,$N,$M] convert(divisor))\n"
    " good = reduce(s32[$B,$N] convert(not(short)), nought), dimensions={1}, to_apply=total\n"
    " fewest = reduce(good, s32[] constant($N)), dimensions={0}, to_apply=least\n"
    " basis2 = pad(u, zero_t), padding=0_0x0_$MOREx0_0\n"
    " yes = pred[] constant(true)\n"
    " wanted = pad(short, yes), padding=0_0x0_$MORE\n"
    " begin = tuple(fewest, basis2, wanted)\n"
    " completed = while(begin), condition=more_rows, body=complete\n"
    " basis3 = get-tuple-element(completed), index=1\n"
    " scale2 = $R[$B,$N] broadcast(scale), dimensions={0}\n"
    " values = $O1 reshape(multiply(s, scale2))\n"
    "$END"
    " a5 = copy(given)\n"
    " info = $O4 broadcast(nought), dimensions={}\n"
    " ROOT r = tuple(a5, values, left, right, info) }\n";

#endif
