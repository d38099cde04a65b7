/* LAPACK's factorisations as HLO for template.h. All work on batches: $B matrices of $M rows and $N
 * columns, elements of type $T, with real parts of type $R. Loops go over columns; what a step does
 * to a part of a matrix is done to all of it and selected. */
#ifndef PASSES_LAPACK_TEMPLATES_H
#define PASSES_LAPACK_TEMPLATES_H

/* Computations that several of them call. pick: the larger number with its place, the lower place
 * where they are equal. */
#define LAPACK_SHARED                                                                              \
    "HloModule lapack\n"                                                                           \
    "add { a = $T[] parameter(0)\n b = $T[] parameter(1)\n ROOT r = add(a, b) }\n"                 \
    "add_real { a = $R[] parameter(0)\n b = $R[] parameter(1)\n ROOT r = add(a, b) }\n"            \
    "most { a = $R[] parameter(0)\n b = $R[] parameter(1)\n ROOT r = maximum(a, b) }\n"            \
    "total { a = s32[] parameter(0)\n b = s32[] parameter(1)\n ROOT r = add(a, b) }\n"             \
    "any { a = pred[] parameter(0)\n b = pred[] parameter(1)\n ROOT r = or(a, b) }\n"              \
    "pick { a = $R[] parameter(0)\n i = s32[] parameter(1)\n b = $R[] parameter(2)\n"              \
    " j = s32[] parameter(3)\n"                                                                    \
    " more = compare(b, a), direction=GT\n"                                                        \
    " same = compare(b, a), direction=EQ\n"                                                        \
    " lower = compare(j, i), direction=LT\n"                                                       \
    " take = or(more, and(same, lower))\n"                                                         \
    " v = select(take, b, a)\n p = select(take, j, i)\n ROOT r = tuple(v, p) }\n"

/* The start of a step: the loop's state, its counter s, constants. */
#define LAPACK_CONSTANTS                                                                           \
    " nought = s32[] constant(0)\n unit = s32[] constant(1)\n"                                     \
    " zero_t = $T[] constant($zero)\n zero_r = $R[] constant(0)\n one_r = $R[] constant(1)\n"      \
    " zeros_r = $R[$B] broadcast(zero_r), dimensions={}\n"                                         \
    " ones_r = $R[$B] broadcast(one_r), dimensions={}\n"                                           \
    " zeros_t = $T[$B] convert(zeros_r)\n ones_t = $T[$B] convert(ones_r)\n"
#define LAPACK_STEP                                                                                \
    "more_steps { state = $STATE parameter(0)\n"                                                   \
    " s = get-tuple-element(state), index=0\n"                                                     \
    " end = s32[] constant($STEPS)\n ROOT r = compare(s, end), direction=LT }\n"                   \
    "step { state = $STATE parameter(0)\n"                                                         \
    " s = get-tuple-element(state), index=0\n" LAPACK_CONSTANTS " next = add(s, unit)\n"
#define LAPACK_ENTRY                                                                               \
    "ENTRY main { nought = s32[] constant(0)\n given = $IN parameter(0)\n"                         \
    " a = $T[$B,$M,$N] reshape(given)\n zero_t = $T[] constant($zero)\n"                           \
    " zero_r = $R[] constant(0)\n"
/* Rows and columns. */
#define LAPACK_PLACES                                                                              \
    " row = s32[$B,$M] iota(), iota_dimension=1\n"                                                 \
    " column3 = s32[$B,$M,$N] iota(), iota_dimension=2\n"                                          \
    " row3 = s32[$B,$M,$N] iota(), iota_dimension=1\n"                                             \
    " k3 = s32[$B,$M,$N] broadcast(k), dimensions={}\n"                                            \
    " right = compare(column3, k3), direction=GT\n"                                                \
    " here = compare(column3, k3), direction=EQ\n"
/* x: column k. A sum that has one term: lanes are not moved one by one. */
#define LAPACK_COLUMN_OF(matrix)                                                                   \
    " column_x = s32[$B,$M,$N] iota(), iota_dimension=2\n"                                         \
    " at_x = compare(column_x, s32[$B,$M,$N] broadcast(k), dimensions={}), direction=EQ\n"         \
    " none_x = $T[$B,$M,$N] broadcast(zero_t), dimensions={}\n"                                    \
    " x = reduce(select(at_x, " matrix ", none_x), zero_t), dimensions={2}, to_apply=add\n"
#define LAPACK_COLUMN LAPACK_COLUMN_OF("a")

/* Columns k and p (one a matrix) of a change places, and numbers k and p of `order`. */
#define LAPACK_EXCHANGE                                                                            \
    " c3 = s32[$B,$M,$N] iota(), iota_dimension=2\n"                                               \
    " at_kc = compare(c3, s32[$B,$M,$N] broadcast(k), dimensions={}), direction=EQ\n"              \
    " at_pc = compare(c3, s32[$B,$M,$N] broadcast(p), dimensions={0}), direction=EQ\n"             \
    " none3 = $T[$B,$M,$N] broadcast(zero_t), dimensions={}\n"                                     \
    " col_p = reduce(select(at_pc, a, none3), zero_t), dimensions={2}, to_apply=add\n"             \
    " slice_c = dynamic-slice(a, nought, nought, k), dynamic_slice_sizes={$B,$M,1}\n"              \
    " col_k = $T[$B,$M] reshape(slice_c)\n"                                                        \
    " col_p3 = $T[$B,$M,$N] broadcast(col_p), dimensions={0,1}\n"                                  \
    " col_k3 = $T[$B,$M,$N] broadcast(col_k), dimensions={0,1}\n"                                  \
    " swapped = select(at_kc, col_p3, select(at_pc, col_k3, a))\n"                                 \
    " c2 = s32[$B,$N] iota(), iota_dimension=1\n"                                                  \
    " at_k1 = compare(c2, s32[$B,$N] broadcast(k), dimensions={}), direction=EQ\n"                 \
    " at_p1 = compare(c2, s32[$B,$N] broadcast(p), dimensions={0}), direction=EQ\n"                \
    " none1 = s32[$B,$N] broadcast(nought), dimensions={}\n"                                       \
    " order_p = reduce(select(at_p1, order, none1), nought), dimensions={1}, to_apply=total\n"     \
    " order_k = s32[$B] reshape(dynamic-slice(order, nought, k), dynamic_slice_sizes={$B,1})\n"    \
    " order_pn = s32[$B,$N] broadcast(order_p), dimensions={0}\n"                                  \
    " order_kn = s32[$B,$N] broadcast(order_k), dimensions={0}\n"                                  \
    " order2 = select(at_k1, order_pn, select(at_p1, order_kn, order))\n"

/* ---- Cholesky and triangular systems: operations of their own ---- */

static const char lapack_potrf[] = "HloModule potrf\n"
                                   "ENTRY main { a = $IN parameter(0)\n"
                                   " factor = cholesky(a), lower=$lower\n"
                                   " corner = slice(factor), slice={$CORNER}\n"
                                   " first = $R[$B] reshape($re(corner))\n"
                                   " failed = compare(first, first), direction=NE\n"
                                   " info = $I1 reshape(s32[$B] convert(failed))\n"
                                   " ROOT r = tuple(factor, info) }\n";

static const char lapack_trsm[] =
    "HloModule trsm\n"
    "ENTRY main { a = $IN parameter(0)\n b = $IN1 parameter(1)\n"
    " ROOT r = triangular-solve(a, b), left_side=$left, lower=$lower, unit_diagonal=$unit,"
    " transpose_a=$transpose }\n";

/* ---- LU with row exchanges ---- */

static const char lapack_getrf[] = LAPACK_SHARED LAPACK_STEP
    " k = copy(s)\n"
    " a = get-tuple-element(state), index=1\n"
    " pivots = get-tuple-element(state), index=2\n"
    " info = get-tuple-element(state), index=3\n" LAPACK_PLACES LAPACK_COLUMN
    /* The largest number at or below the diagonal; NaN there stays. */
    " k2 = s32[$B,$M] broadcast(k), dimensions={}\n"
    " at_k = compare(row, k2), direction=EQ\n"
    " above = compare(row, k2), direction=LT\n"
    " below = compare(row, k2), direction=GT\n"
    " none = $R[$B,$M] broadcast($R[] constant(-1)), dimensions={}\n"
    " all = $R[$B,$M] broadcast($R[] constant(inf)), dimensions={}\n"
    " size = $size(x)\n"
    " is_nan = compare(size, size), direction=NE\n"
    " known = select(is_nan, select(at_k, all, none), size)\n"
    " candidate = select(above, none, known)\n"
    " last = s32[] constant($M)\n"
    " best = reduce(candidate, row, $R[] constant(-1), last), dimensions={1}, to_apply=pick\n"
    " p = get-tuple-element(best), index=1\n"
    " place = s32[$B,$K] iota(), iota_dimension=1\n"
    " now = compare(place, s32[$B,$K] broadcast(k), dimensions={}), direction=EQ\n"
    " number = s32[$B] add(p, s32[$B] broadcast(unit), dimensions={})\n"
    " pivots2 = select(now, s32[$B,$K] broadcast(number), dimensions={0}, pivots)\n"
    /* Rows k and p change places. */
    " p2 = s32[$B,$M] broadcast(p), dimensions={0}\n"
    " at_p = compare(row, p2), direction=EQ\n"
    " at_p3 = pred[$B,$M,$N] broadcast(at_p), dimensions={0,1}\n"
    " at_k3 = pred[$B,$M,$N] broadcast(at_k), dimensions={0,1}\n"
    " zeros3 = $T[$B,$M,$N] broadcast(zero_t), dimensions={}\n"
    " slice_k = dynamic-slice(a, nought, k, nought), dynamic_slice_sizes={$B,1,$N}\n"
    " row_k = $T[$B,$N] reshape(slice_k)\n"
    " row_p = reduce(select(at_p3, a, zeros3), zero_t), dimensions={1}, to_apply=add\n"
    " row_p3 = $T[$B,$M,$N] broadcast(row_p), dimensions={0,2}\n"
    " row_k3 = $T[$B,$M,$N] broadcast(row_k), dimensions={0,2}\n"
    " swapped = select(at_k3, row_p3, select(at_p3, row_k3, a))\n"
    " x_k = $T[$B] reshape(dynamic-slice(x, nought, k), dynamic_slice_sizes={$B,1})\n"
    " x2 = select(at_p, $T[$B,$M] broadcast(x_k), dimensions={0}, x)\n"
    " d = $T[$B] reshape(dynamic-slice(row_p, nought, k), dynamic_slice_sizes={$B,1})\n"
    " solid = compare(d, zeros_t), direction=NE\n"
    /* Elimination. */
    " live = and(below, pred[$B,$M] broadcast(solid), dimensions={0})\n"
    " live3 = pred[$B,$M,$N] broadcast(live), dimensions={0,1}\n"
    " factor = divide(x2, $T[$B,$M] broadcast(d), dimensions={0})\n"
    " factor3 = $T[$B,$M,$N] broadcast(factor), dimensions={0,1}\n"
    " rest = subtract(swapped, multiply(factor3, row_p3))\n"
    " inner = select(and(live3, right), rest, swapped)\n"
    " a2 = select(and(live3, here), factor3, inner)\n"
    " good = compare(info, s32[$B] broadcast(nought), dimensions={}), direction=EQ\n"
    " broken = and(not(solid), good)\n"
    " info2 = select(broken, s32[$B] broadcast(next), dimensions={}, info)\n"
    " ROOT r = tuple(next, a2, pivots2, info2) }\n" LAPACK_ENTRY
    " pivots = s32[$B,$K] broadcast(nought), dimensions={}\n"
    " info = s32[$B] broadcast(nought), dimensions={}\n"
    " start = tuple(nought, a, pivots, info)\n"
    " done = while(start), condition=more_steps, body=step\n"
    " lu = $O0 reshape(get-tuple-element(done), index=1)\n"
    " pivots2 = $O1 reshape(get-tuple-element(done), index=2)\n"
    " info2 = $O2 reshape(get-tuple-element(done), index=3)\n"
    " ROOT r = tuple(lu, pivots2, info2) }\n";

/* ---- Householder reflections: 1 - tau v v^H ---- */

/* Of x below row `pivot`, which is left with beta there: v (1 in that row, 0 above), tau and beta.
 * Sizes are divided by the largest one before they are squared. */
#define LAPACK_REFLECTION                                                                          \
    " pivot2 = s32[$B,$M] broadcast(pivot), dimensions={}\n"                                       \
    " at_k = compare(row, pivot2), direction=EQ\n"                                                 \
    " after = compare(row, pivot2), direction=GT\n"                                                \
    " below = $below(after)\n"                                                                     \
    " zeros2 = $T[$B,$M] broadcast(zero_t), dimensions={}\n"                                       \
    " alpha = reduce(select(at_k, x, zeros2), zero_t), dimensions={1}, to_apply=add\n"             \
    " tail = select(below, x, zeros2)\n"                                                           \
    " widest = reduce($extent(tail), zero_r), dimensions={1}, to_apply=most\n"                     \
    " none = compare(widest, zeros_r), direction=EQ\n"                                             \
    " scale = select(none, ones_r, widest)\n"                                                      \
    " scaled = divide(tail, $T[$B,$M] convert($R[$B,$M] broadcast(scale), dimensions={0}))\n"      \
    " squares = reduce($square(scaled), zero_r), dimensions={1}, to_apply=add_real\n"              \
    " rest = multiply(scale, sqrt(squares))\n"                                                     \
    " real_alpha = $realpart(alpha)\n"                                                             \
    " size_alpha = abs(alpha)\n"                                                                   \
    " larger = maximum(size_alpha, rest)\n"                                                        \
    " empty = compare(larger, zeros_r), direction=EQ\n"                                            \
    " unity = select(empty, ones_r, larger)\n"                                                     \
    " part_a = divide(size_alpha, unity)\n part_b = divide(rest, unity)\n"                         \
    " sum2 = add(multiply(part_a, part_a), multiply(part_b, part_b))\n"                            \
    " norm = multiply(unity, sqrt(sum2))\n"                                                        \
    " bits = s32[$B] bitcast-convert(real_alpha)\n"                                                \
    " minus = compare(bits, s32[$B] broadcast(nought), dimensions={}), direction=LT\n"             \
    " away = select(minus, norm, negate(norm))\n"                                                  \
    " left = $withim(rest)\n"                                                                      \
    " trivial = compare(left, zeros_r), direction=EQ\n"                                            \
    " beta_r = select(trivial, real_alpha, away)\n"                                                \
    " beta = $T[$B] convert(beta_r)\n"                                                             \
    " away_t = $T[$B] convert(away)\n"                                                             \
    " tau = select(trivial, zeros_t, divide(subtract(away_t, alpha), away_t))\n"                   \
    " head = select(trivial, ones_t, subtract(alpha, away_t))\n"                                   \
    " ones2 = $T[$B,$M] broadcast($T[] convert(one_r)), dimensions={}\n"                           \
    " head2 = $T[$B,$M] broadcast(head), dimensions={0}\n"                                         \
    " v = select(at_k, ones2, divide(tail, head2))\n"                                              \
    " v3 = $T[$B,$M,$N] broadcast(v), dimensions={0,1}\n"

/* Column k of what LAPACK returns: beta in the pivot's row, v below. */
#define LAPACK_KEEP                                                                                \
    " below3 = pred[$B,$M,$N] broadcast(below), dimensions={0,1}\n"                                \
    " at_k3 = pred[$B,$M,$N] broadcast(at_k), dimensions={0,1}\n"                                  \
    " beta3 = $T[$B,$M,$N] broadcast(beta), dimensions={0}\n"                                      \
    " kept = select(below3, v3, select(at_k3, beta3, turned))\n"                                   \
    " a2 = select(here, kept, turned)\n"
/* Number s of `taus` becomes tau. */
#define LAPACK_TAU                                                                                 \
    " place = s32[$B,$K] iota(), iota_dimension=1\n"                                               \
    " now = compare(place, s32[$B,$K] broadcast(s), dimensions={}), direction=EQ\n"                \
    " taus2 = select(now, $T[$B,$K] broadcast(tau), dimensions={0}, taus)\n"
/* From the left: a - v conj(tau) v^H a, in columns right of k. */
#define LAPACK_TURN_LEFT(matrix)                                                                   \
    " vc3 = $T[$B,$M,$N] broadcast($conj(v)), dimensions={0,1}\n"                                  \
    " dots = reduce(multiply(vc3, " matrix "), zero_t), dimensions={1}, to_apply=add\n"            \
    " tau_n = $T[$B,$N] broadcast($conj(tau)), dimensions={0}\n"                                   \
    " dots3 = $T[$B,$M,$N] broadcast(multiply(tau_n, dots)), dimensions={0,2}\n"                   \
    " turned = select(right, subtract(" matrix ", multiply(v3, dots3)), " matrix ")\n"

static const char lapack_geqrf[] = LAPACK_SHARED LAPACK_STEP
    " k = copy(s)\n pivot = copy(s)\n"
    " a = get-tuple-element(state), index=1\n"
    " taus = get-tuple-element(state), index=2\n" LAPACK_PLACES LAPACK_COLUMN LAPACK_REFLECTION
        LAPACK_TURN_LEFT("a") LAPACK_KEEP LAPACK_TAU
    " ROOT r = tuple(next, a2, taus2) }\n" LAPACK_ENTRY
    " taus = $T[$B,$K] broadcast(zero_t), dimensions={}\n"
    " start = tuple(nought, a, taus)\n"
    " done = while(start), condition=more_steps, body=step\n"
    " qr = $O0 reshape(get-tuple-element(done), index=1)\n"
    " taus2 = $O1 reshape(get-tuple-element(done), index=2)\n"
    " ROOT r = tuple(qr, taus2) }\n";

/* Hessenberg form: step s makes column low - 1 + s zero below the row under the diagonal, from both
 * sides; rows and columns from $HIGH on stay. */
static const char lapack_gehrd[] = LAPACK_SHARED LAPACK_STEP
    " first = s32[] constant($LOW)\n"
    " k = add(s, first)\n"
    " pivot = add(k, unit)\n"
    " a = get-tuple-element(state), index=1\n"
    " taus = get-tuple-element(state), index=2\n" LAPACK_PLACES LAPACK_COLUMN
    " end = s32[] constant($HIGH)\n"
    " active = compare(row, s32[$B,$M] broadcast(end), dimensions={}), "
    "direction=LT\n" LAPACK_REFLECTION
    /* From the right: rows before $HIGH, columns right of k. */
    " row_v = $T[$B,$M,$N] broadcast(v), dimensions={0,2}\n"
    " across = reduce(multiply(a, row_v), zero_t), dimensions={2}, to_apply=add\n"
    " tau_m = $T[$B,$M] broadcast(tau), dimensions={0}\n"
    " across3 = $T[$B,$M,$N] broadcast(multiply(tau_m, across)), dimensions={0,1}\n"
    " active3 = pred[$B,$M,$N] broadcast(active), dimensions={0,1}\n"
    " moved = subtract(a, multiply(across3, $T[$B,$M,$N] broadcast($conj(v)), dimensions={0,2}))\n"
    " half = select(active3, moved, a)\n" LAPACK_TURN_LEFT("half") LAPACK_KEEP
    " place = s32[$B,$TAUS] iota(), iota_dimension=1\n"
    " now = compare(place, s32[$B,$TAUS] broadcast(k), dimensions={}), direction=EQ\n"
    " taus2 = select(now, $T[$B,$TAUS] broadcast(tau), dimensions={0}, taus)\n"
    " ROOT r = tuple(next, a2, taus2) }\n" LAPACK_ENTRY
    " taus = $T[$B,$TAUS] broadcast(zero_t), dimensions={}\n"
    " start = tuple(nought, a, taus)\n"
    " done = while(start), condition=more_steps, body=step\n"
    " h = $O0 reshape(get-tuple-element(done), index=1)\n"
    " taus2 = $O1 reshape(get-tuple-element(done), index=2)\n"
    " info = $O2 broadcast(nought), dimensions={}\n"
    " ROOT r = tuple(h, taus2, info) }\n";

/* Reflections, whose vectors are columns of a, applied to c from the left; $BEGIN makes c, and $END
 * the result out of q. */
static const char lapack_apply[] = LAPACK_SHARED LAPACK_STEP
    " k = $ORDER\n"
    " c = get-tuple-element(state), index=1\n"
    " a = get-tuple-element(state), index=2\n"
    " taus = get-tuple-element(state), index=3\n"
    " row = s32[$B,$M] iota(), iota_dimension=1\n" LAPACK_COLUMN
    " k2 = s32[$B,$M] broadcast(k), dimensions={}\n"
    " at_k = compare(row, k2), direction=EQ\n"
    " below = compare(row, k2), direction=GT\n"
    " zeros2 = $T[$B,$M] broadcast(zero_t), dimensions={}\n"
    " ones2 = $T[$B,$M] broadcast($T[] convert(one_r)), dimensions={}\n"
    " v = select(at_k, ones2, select(below, x, zeros2))\n"
    " tau = $T[$B] reshape(dynamic-slice(taus, nought, k), dynamic_slice_sizes={$B,1})\n"
    " vc3 = $T[$B,$M,$C] broadcast($conj(v)), dimensions={0,1}\n"
    " dots = reduce(multiply(vc3, c), zero_t), dimensions={1}, to_apply=add\n"
    " tau_c = $T[$B,$C] broadcast($factor(tau)), dimensions={0}\n"
    " dots3 = $T[$B,$M,$C] broadcast(multiply(tau_c, dots)), dimensions={0,2}\n"
    " v3 = $T[$B,$M,$C] broadcast(v), dimensions={0,1}\n"
    " c2 = subtract(c, multiply(v3, dots3))\n"
    " ROOT r = tuple(next, c2, a, taus) }\n" LAPACK_ENTRY
    " given_taus = $IN1 parameter(1)\n taus = $T[$B,$L] reshape(given_taus)\n"
    "$BEGIN"
    " start = tuple(nought, c, a, taus)\n"
    " done = while(start), condition=more_steps, body=step\n"
    " q = get-tuple-element(done), index=1\n"
    "$END }\n";

/* QR with column exchanges: first those with a number in the second operand, in front; then the
 * longest rest of a column is next. */
static const char lapack_geqp3[] = LAPACK_SHARED
    "more_columns { state = (s32[], $T[$B,$M,$N], s32[$B,$N], s32[$B], s32[$B,$N]) parameter(0)\n"
    " j = get-tuple-element(state), index=0\n"
    " end = s32[] constant($N)\n ROOT r = compare(j, end), direction=LT }\n"
    "front { state = (s32[], $T[$B,$M,$N], s32[$B,$N], s32[$B], s32[$B,$N]) parameter(0)\n"
    " j = get-tuple-element(state), index=0\n a = get-tuple-element(state), index=1\n"
    " order = get-tuple-element(state), index=2\n fixed = get-tuple-element(state), index=3\n"
    " given = get-tuple-element(state), index=4\n" LAPACK_CONSTANTS
    " mark = s32[$B] reshape(dynamic-slice(given, nought, j), dynamic_slice_sizes={$B,1})\n"
    " wanted = compare(mark, s32[$B] broadcast(nought), dimensions={}), direction=NE\n"
    " k = copy(j)\n j1 = s32[$B] broadcast(j), dimensions={}\n"
    " p = select(wanted, fixed, j1)\n" LAPACK_EXCHANGE " one1 = s32[$B] convert(wanted)\n"
    " ROOT r = tuple(add(j, unit), swapped, order2, add(fixed, one1), given) }\n" LAPACK_STEP
    " k = copy(s)\n pivot = copy(s)\n"
    " given_a = get-tuple-element(state), index=1\n a = copy(given_a)\n"
    " order = get-tuple-element(state), index=2\n"
    " taus = get-tuple-element(state), index=3\n"
    " fixed = get-tuple-element(state), index=4\n" LAPACK_PLACES
    " active = compare(row3, k3), direction=GE\n"
    " zeros3 = $T[$B,$M,$N] broadcast(zero_t), dimensions={}\n"
    " part = select(active, a, zeros3)\n"
    " extent_all = reduce($extent(part), zero_r), dimensions={1,2}, to_apply=most\n"
    " nothing = compare(extent_all, zeros_r), direction=EQ\n"
    " unit_r = select(nothing, ones_r, extent_all)\n"
    " unit_3 = $T[$B,$M,$N] convert($R[$B,$M,$N] broadcast(unit_r), dimensions={0})\n"
    " part2 = divide(part, unit_3)\n"
    " lengths = reduce($square(part2), zero_r), dimensions={1}, to_apply=add_real\n"
    " column_n = s32[$B,$N] iota(), iota_dimension=1\n"
    " k_n = s32[$B,$N] broadcast(k), dimensions={}\n"
    " fixed_n = s32[$B,$N] broadcast(fixed), dimensions={0}\n"
    " no = $R[$B,$N] broadcast($R[] constant(-1)), dimensions={}\n"
    " yes = $R[$B,$N] broadcast($R[] constant(inf)), dimensions={}\n"
    " at_kn = compare(column_n, k_n), direction=EQ\n"
    " behind = compare(column_n, k_n), direction=GT\n"
    " free = compare(k_n, fixed_n), direction=GE\n"
    " known = compare(lengths, lengths), direction=EQ\n"
    " later = select(and(behind, known), lengths, no)\n"
    " value = select(at_kn, select(known, lengths, yes), later)\n"
    " candidate = select(free, value, select(at_kn, yes, no))\n"
    " last = s32[] constant($N)\n"
    " best = reduce(candidate, column_n, $R[] constant(-1), last), dimensions={1}, to_apply=pick\n"
    " p = get-tuple-element(best), index=1\n" LAPACK_EXCHANGE LAPACK_COLUMN_OF("swapped")
        LAPACK_REFLECTION LAPACK_TURN_LEFT("swapped") LAPACK_KEEP LAPACK_TAU
    " ROOT r = tuple(next, a2, order2, taus2, fixed) }\n" LAPACK_ENTRY
    " given_order = $IN1 parameter(1)\n marks = s32[$B,$N] reshape(given_order)\n"
    " place = s32[$B,$N] iota(), iota_dimension=1\n"
    " order = add(place, s32[$B,$N] broadcast(s32[] constant(1)), dimensions={})\n"
    " fixed = s32[$B] broadcast(nought), dimensions={}\n"
    " begin = tuple(nought, a, order, fixed, marks)\n"
    " begun = while(begin), condition=more_columns, body=front\n"
    " a1 = get-tuple-element(begun), index=1\n order1 = get-tuple-element(begun), index=2\n"
    " fixed1 = get-tuple-element(begun), index=3\n"
    " taus = $T[$B,$K] broadcast(zero_t), dimensions={}\n"
    " start = tuple(nought, a1, order1, taus, fixed1)\n"
    " done = while(start), condition=more_steps, body=step\n"
    " qr = $O0 reshape(get-tuple-element(done), index=1)\n"
    " order2 = $O1 reshape(get-tuple-element(done), index=2)\n"
    " taus2 = $O2 reshape(get-tuple-element(done), index=3)\n"
    " ROOT r = tuple(qr, order2, taus2) }\n";

/* ---- tridiagonal systems: $M rows (low, mid, high), $N columns of b ---- */

/* Number `at` of an array of $M a matrix, and row `at` of b. */
#define LAPACK_ENTRY_OF(to, x, at)                                                                 \
    " " to " = $T[$B] reshape(dynamic-slice(" x ", nought, " at "), dynamic_slice_sizes={$B,1})\n"
#define LAPACK_ROW_OF(to, x, at)                                                                   \
    " " to " = $T[$B,$N] reshape(dynamic-slice(" x ", nought, " at ", nought),"                    \
    " dynamic_slice_sizes={$B,1,$N})\n"
/* y = x with `value` in place `here`, where `good` holds. */
#define LAPACK_PUT(y, x, here, value)                                                              \
    " " y " = select(and(good_m, " here "), $T[$B,$M] broadcast(" value "), dimensions={0}, " x    \
    ")\n"
#define LAPACK_PUT_ROW(y, x, here, value)                                                          \
    " " y " = select(and(good_3, pred[$B,$M,$N] broadcast(" here "), dimensions={0,1}),"           \
    " $T[$B,$M,$N] broadcast(" value "), dimensions={0,2}, " x ")\n"
#define LAPACK_GOOD                                                                                \
    " good_m = pred[$B,$M] broadcast(good), dimensions={0}\n"                                      \
    " good_3 = pred[$B,$M,$N] broadcast(good), dimensions={0}\n"                                   \
    " place = s32[$B,$M] iota(), iota_dimension=1\n"

/* Elimination with row exchanges; what comes to stand two places right of the diagonal in row i is
 * kept in low[i + 1]. Then the last row first. */
static const char lapack_gtsv[] = LAPACK_SHARED LAPACK_STEP
    " low = get-tuple-element(state), index=1\n mid = get-tuple-element(state), index=2\n"
    " high = get-tuple-element(state), index=3\n b = get-tuple-element(state), index=4\n"
    " info = get-tuple-element(state), index=5\n" LAPACK_ENTRY_OF(
        "l1", "low", "next") LAPACK_ENTRY_OF("m0", "mid", "s") LAPACK_ENTRY_OF("m1", "mid", "next")
        LAPACK_ENTRY_OF("h0", "high", "s") LAPACK_ENTRY_OF(
            "h1", "high",
            "next") " size_l = $size(l1)\n size_m = $size(m0)\n"
                    " swap = compare(size_l, size_m), direction=GT\n"
                    " pivot = select(swap, l1, m0)\n"
                    " solid = compare(pivot, zeros_t), direction=NE\n"
                    " fine = compare(info, s32[$B] broadcast(nought), dimensions={}), "
                    "direction=EQ\n"
                    " good = and(solid, fine)\n"
                    " factor = divide(select(swap, m0, l1), pivot)\n"
                    " right = select(swap, m1, h0)\n"
                    " before_last = compare(next, s32[] constant($LAST)), direction=LT\n"
                    " two = and(swap, pred[$B] broadcast(before_last), dimensions={})\n"
                    " far = select(two, h1, zeros_t)\n"
                    " m1_next = subtract(select(swap, h0, m1), multiply(factor, right))\n"
                    " h1_next = select(two, negate(multiply(factor, far)), h1)\n" LAPACK_GOOD
                    " at_s = compare(place, s32[$B,$M] broadcast(s), dimensions={}), direction=EQ\n"
                    " at_next = compare(place, s32[$B,$M] broadcast(next), dimensions={}), "
                    "direction=EQ\n" LAPACK_PUT("mid1", "mid", "at_s", "pivot") LAPACK_PUT(
                        "mid2", "mid1", "at_next",
                        "m1_next") LAPACK_PUT("high1", "high", "at_s",
                                              "right") LAPACK_PUT("high2", "high1", "at_next",
                                                                  "h1_next") LAPACK_PUT("low2",
                                                                                        "low",
                                                                                        "at_next",
                                                                                        "far")
                        LAPACK_ROW_OF("x", "b", "s") LAPACK_ROW_OF(
                            "y", "b",
                            "next") " swap_n = pred[$B,$N] broadcast(swap), dimensions={0}\n"
                                    " factor_n = $T[$B,$N] broadcast(factor), dimensions={0}\n"
                                    " up = select(swap_n, y, x)\n down = select(swap_n, x, y)\n"
                                    " rest = subtract(down, multiply(factor_n, "
                                    "up))\n" LAPACK_PUT_ROW("b1", "b", "at_s", "up") LAPACK_PUT_ROW(
                                        "b2", "b1", "at_next",
                                        "rest") " broken = and(fine, not(solid))\n"
                                                " info2 = select(broken, s32[$B] broadcast(next), "
                                                "dimensions={}, info)\n"
                                                " ROOT r = tuple(next, low2, mid2, high2, b2, "
                                                "info2) }\n"
                                                "more_rows { state = $BACK parameter(0)\n"
                                                " s = get-tuple-element(state), index=0\n"
                                                " end = s32[] constant($M)\n ROOT r = compare(s, "
                                                "end), direction=LT }\n"
                                                "back { state = $BACK parameter(0)\n"
                                                " s = get-tuple-element(state), index=0\n low = "
                                                "get-tuple-element(state), index=1\n"
                                                " mid = get-tuple-element(state), index=2\n high = "
                                                "get-tuple-element(state), index=3\n"
                                                " b = get-tuple-element(state), index=4\n info = "
                                                "get-tuple-element(state), index=5\n"
                                                " x1 = get-tuple-element(state), index=6\n x2 = "
                                                "get-tuple-element(state), "
                                                "index=7\n" LAPACK_CONSTANTS
                                                " k = subtract(s32[] constant($LAST), s)\n below = "
                                                "add(k, unit)\n" LAPACK_ENTRY_OF("m", "mid", "k")
                                                    LAPACK_ENTRY_OF("h", "high",
                                                                    "k") LAPACK_ENTRY_OF("l", "low",
                                                                                         "below")
                                                        LAPACK_ROW_OF(
                                                            "value", "b",
                                                            "k") " one_row = compare(s, nought), "
                                                                 "direction=GT\n"
                                                                 " two_rows = compare(s, unit), "
                                                                 "direction=GT\n"
                                                                 " h_known = select(pred[$B] "
                                                                 "broadcast(one_row), "
                                                                 "dimensions={}, h, zeros_t)\n"
                                                                 " l_known = select(pred[$B] "
                                                                 "broadcast(two_rows), "
                                                                 "dimensions={}, l, zeros_t)\n"
                                                                 " part_h = multiply($T[$B,$N] "
                                                                 "broadcast(h_known), "
                                                                 "dimensions={0}, x1)\n"
                                                                 " part_l = multiply($T[$B,$N] "
                                                                 "broadcast(l_known), "
                                                                 "dimensions={0}, x2)\n"
                                                                 " rest = subtract(subtract(value, "
                                                                 "part_h), part_l)\n"
                                                                 " x = divide(rest, $T[$B,$N] "
                                                                 "broadcast(m), dimensions={0})\n"
                                                                 " good = compare(info, s32[$B] "
                                                                 "broadcast(nought), "
                                                                 "dimensions={}), "
                                                                 "direction=EQ\n" LAPACK_GOOD
                                                                 " at_k = compare(place, "
                                                                 "s32[$B,$M] broadcast(k), "
                                                                 "dimensions={}), "
                                                                 "direction=EQ\n" LAPACK_PUT_ROW(
                                                                     "b2", "b", "at_k",
                                                                     "x") " ROOT r = tuple(add(s, "
                                                                          "unit), low, mid, high, "
                                                                          "b2, info, x, x1) }\n"
                                                                          "ENTRY main { nought = "
                                                                          "s32[] constant(0)\n "
                                                                          "zero_t = $T[] "
                                                                          "constant($zero)\n"
                                                                          " in_low = $IN "
                                                                          "parameter(0)\n in_mid = "
                                                                          "$IN1 parameter(1)\n "
                                                                          "in_high = $IN2 "
                                                                          "parameter(2)\n"
                                                                          " in_b = $IN3 "
                                                                          "parameter(3)\n"
                                                                          " low = $T[$B,$M] "
                                                                          "reshape(in_low)\n mid = "
                                                                          "$T[$B,$M] "
                                                                          "reshape(in_mid)\n"
                                                                          " high = $T[$B,$M] "
                                                                          "reshape(in_high)\n b = "
                                                                          "$T[$B,$M,$N] "
                                                                          "reshape(in_b)\n"
                                                                          " info = s32[$B] "
                                                                          "broadcast(nought), "
                                                                          "dimensions={}\n"
                                                                          " start = tuple(nought, "
                                                                          "low, mid, high, b, "
                                                                          "info)\n"
                                                                          " done = while(start), "
                                                                          "condition=more_steps, "
                                                                          "body=step\n"
                                                                          " low1 = "
                                                                          "get-tuple-element(done),"
                                                                          " index=1\n mid1 = "
                                                                          "get-tuple-element(done),"
                                                                          " index=2\n"
                                                                          " high1 = "
                                                                          "get-tuple-element(done),"
                                                                          " index=3\n b1 = "
                                                                          "get-tuple-element(done),"
                                                                          " index=4\n"
                                                                          " info1 = "
                                                                          "get-tuple-element(done),"
                                                                          " index=5\n"
                                                                          " corner = $T[$B] "
                                                                          "reshape(slice(mid1), "
                                                                          "slice={[0:$B],[$LAST:$M]"
                                                                          "})\n"
                                                                          " empty = "
                                                                          "compare(corner, $T[$B] "
                                                                          "broadcast(zero_t), "
                                                                          "dimensions={}), "
                                                                          "direction=EQ\n"
                                                                          " fine = compare(info1, "
                                                                          "s32[$B] "
                                                                          "broadcast(nought), "
                                                                          "dimensions={}), "
                                                                          "direction=EQ\n"
                                                                          " size = s32[$B] "
                                                                          "broadcast(s32[] "
                                                                          "constant($M)), "
                                                                          "dimensions={}\n"
                                                                          " info2 = "
                                                                          "select(and(fine, "
                                                                          "empty), size, info1)\n"
                                                                          " none = $T[$B,$N] "
                                                                          "broadcast(zero_t), "
                                                                          "dimensions={}\n"
                                                                          " begin = tuple(nought, "
                                                                          "low1, mid1, high1, b1, "
                                                                          "info2, none, none)\n"
                                                                          " solved = while(begin), "
                                                                          "condition=more_rows, "
                                                                          "body=back\n"
                                                                          " out_low = $O0 "
                                                                          "reshape(low1)\n out_mid "
                                                                          "= $O1 reshape(mid1)\n "
                                                                          "out_high = $O2 "
                                                                          "reshape(high1)\n"
                                                                          " x = $O3 "
                                                                          "reshape(get-tuple-"
                                                                          "element(solved), "
                                                                          "index=4)\n out_info = "
                                                                          "$O4 reshape(info2)\n"
                                                                          " ROOT r = "
                                                                          "tuple(out_low, out_mid, "
                                                                          "out_high, x, out_info) "
                                                                          "}\n";

#endif
