/* Calls of the runtime for Fourier transforms, random bits and linear algebra, LAPACK's as JAX
 * writes them included. Their arrays are row-major whatever layouts are written: the runtime does
 * not need LAPACK's column order. */
#include <string.h>

#include "backend/cpu/library.h"
#include "ir/custom_call.h"

static int64_t product(const struct shape *shape, int from, int to) {
    int64_t count = 1;
    for (int d = from; d < to; d++)
        count *= shape->dims[d];
    return count;
}

/* ---- fft ---- */

enum { LARGEST_TABLES = 1 << 19 };

bool cpu_fft_call(const struct hlo_instr *instr, struct cpu_library_call *call) {
    const struct shape *in = instr->operands[0]->shape, *out = instr->shape;
    struct int_list length = instr_ints(instr, ATTR_FFT_LENGTH);
    int rank = in->rank, axes = length.count;
    if (axes < 1 || axes > 3 || axes > rank || out->rank != rank) return false;
    enum element_type type = element_type_real_part(in->type);
    if (type != TYPE_F32 && type != TYPE_F64) return false;
    call->name = "hlocc_rt_fft";
    call->count = FFT_NUMBERS;
    switch (instr_int(instr, ATTR_FFT_TYPE, ENUM_FFT_TYPE_FFT)) {
    case ENUM_FFT_TYPE_FFT: call->config[FFT_KIND] = FFT_FORWARD; break;
    case ENUM_FFT_TYPE_IFFT: call->config[FFT_KIND] = FFT_INVERSE; break;
    case ENUM_FFT_TYPE_RFFT: call->config[FFT_KIND] = FFT_REAL; break;
    default: call->config[FFT_KIND] = FFT_REAL_INVERSE; break;
    }
    call->config[FFT_DOUBLE] = type == TYPE_F64;
    call->config[FFT_AXES] = axes;
    call->config[FFT_COUNT] = product(in, 0, rank - axes);
    call->config[FFT_PHASE] = call->phase;
    for (int i = 0; i < axes; i++)
        call->config[FFT_LENGTHS + i] = length.v[i];
    call->phases = hlocc_rt_fft_phases(call->config);
    call->units = hlocc_rt_fft_units(call->config);
    call->tables = hlocc_rt_fft_tables(call->config);
    call->fill = hlocc_rt_fft_fill;
    call->fill_scratch = hlocc_rt_fft_scratch(call->config);
    /* Large tables would make large programs: they are made anew in each call. */
    if (call->tables > LARGEST_TABLES)
        call->tables = 0;
    else
        call->config[FFT_FILLED] = 1;
    call->scratch = hlocc_rt_fft_scratch(call->config);
    return true;
}

/* ---- random bits ---- */

bool cpu_random_call(const struct hlo_instr *instr, struct cpu_library_call *call) {
    const struct shape *state = instr->operands[0]->shape, *out = shape_leaf(instr->shape, 1);
    bool threefry = instr_int(instr, ATTR_ALGORITHM, ENUM_RNG_ALGORITHM_DEFAULT) ==
                    ENUM_RNG_ALGORITHM_THREE_FRY;
    int bits = element_type_info(out->type)->bits;
    if (state->type != TYPE_U64 || state->count < 2 || state->count > 3) return false;
    if (threefry && state->count != 2) return false;
    call->name = threefry ? "hlocc_rt_threefry" : "hlocc_rt_philox";
    call->count = RANDOM_NUMBERS;
    call->config[RANDOM_STATE_WORDS] = state->count;
    call->config[RANDOM_BITS] = bits;
    call->config[RANDOM_SIGNED] = element_type_is_signed(out->type);
    call->config[RANDOM_COUNT] = out->count;
    if (threefry && bits < 64 && out->rank > 0) {
        int split = shape_threefry_dim(out);
        call->config[RANDOM_SPLIT] = out->dims[split];
        call->config[RANDOM_INNER] = product(out, split + 1, out->rank);
    }
    int per_unit = threefry ? 1 : bits == 64 ? 2 : 4;
    call->units = (out->count + per_unit - 1) / per_unit;
    return true;
}

/* ---- linear algebra ---- */

static int runtime_type(enum element_type type) {
    switch (type) {
    case TYPE_F32: return RT_F32;
    case TYPE_F64: return RT_F64;
    case TYPE_C64: return RT_C64;
    case TYPE_C128: return RT_C128;
    case TYPE_F16: return RT_F16;
    case TYPE_BF16: return RT_BF16;
    default: return -1;
    }
}

static int64_t last_dim(const struct shape *shape, int from_end) {
    return shape->rank >= from_end ? shape->dims[shape->rank - from_end] : 0;
}

/* Fills the configuration for a batch of matrices of this shape. */
static bool matrices(const struct shape *shape, int64_t flags, struct cpu_library_call *call) {
    int type = shape_is_array(shape) ? runtime_type(shape->type) : -1;
    if (type < 0 || shape->rank < 2) return false;
    call->count = LINALG_NUMBERS;
    call->units = product(shape, 0, shape->rank - 2);
    call->config[LINALG_TYPE] = type;
    call->config[LINALG_ROWS] = last_dim(shape, 2);
    call->config[LINALG_COLUMNS] = last_dim(shape, 1);
    call->config[LINALG_FLAGS] = flags;
    return true;
}

bool cpu_cholesky_call(const struct hlo_instr *instr, struct cpu_library_call *call) {
    bool lower = instr_bool(instr, ATTR_LOWER, false);
    if (!matrices(instr->shape, lower ? LINALG_LOWER : 0, call)) return false;
    call->name = "hlocc_rt_cholesky";
    call->scratch = hlocc_rt_cholesky_scratch(call->config);
    return last_dim(instr->shape, 1) == last_dim(instr->shape, 2);
}

static bool solve_call(const struct hlo_instr *instr, int64_t flags,
                       struct cpu_library_call *call) {
    const struct shape *a = instr->operands[0]->shape, *b = instr->operands[1]->shape;
    if (!matrices(b, flags, call) || a->type != b->type || a->rank != b->rank) return false;
    int64_t n = last_dim(b, flags & LINALG_LEFT ? 2 : 1);
    if (last_dim(a, 1) != n || last_dim(a, 2) != n || !shape_same_dims(instr->shape, b))
        return false;
    call->name = "hlocc_rt_solve";
    call->scratch = hlocc_rt_solve_scratch(call->config);
    return product(a, 0, a->rank - 2) == call->units;
}

bool cpu_triangular_solve_call(const struct hlo_instr *instr, struct cpu_library_call *call) {
    int64_t how = instr_int(instr, ATTR_TRANSPOSE_A, ENUM_TRANSPOSE_A_NONE);
    int64_t flags = (instr_bool(instr, ATTR_LEFT_SIDE, false) ? LINALG_LEFT : 0) |
                    (instr_bool(instr, ATTR_LOWER, false) ? LINALG_LOWER : 0) |
                    (instr_bool(instr, ATTR_UNIT_DIAGONAL, false) ? LINALG_UNIT : 0) |
                    (how != ENUM_TRANSPOSE_A_NONE ? LINALG_TRANSPOSE : 0) |
                    (how == ENUM_TRANSPOSE_A_ADJOINT ? LINALG_CONJUGATE : 0);
    return solve_call(instr, flags, call);
}

/* ---- LAPACK ---- */

static bool trsm(const struct hlo_instr *instr, struct cpu_library_call *call) {
    int how = custom_call_letter(instr, "trans_x", 'N');
    int64_t flags = (custom_call_letter(instr, "side", 'L') == 'L' ? LINALG_LEFT : 0) |
                    (custom_call_letter(instr, "uplo", 'L') == 'L' ? LINALG_LOWER : 0) |
                    (custom_call_letter(instr, "diag", 'N') == 'U' ? LINALG_UNIT : 0) |
                    (how != 'N' ? LINALG_TRANSPOSE : 0) | (how == 'C' ? LINALG_CONJUGATE : 0);
    return instr->noperands == 2 && solve_call(instr, flags, call);
}

/* The first result is like the operand; the others have `per[k]` numbers a matrix, of the type
 * that the letter says: i for s32, r for the operand's real part, n for the operand's own. */
static bool results_fit(const struct hlo_instr *instr, const struct cpu_library_call *call,
                        const char *types, const int64_t *per) {
    const struct shape *shape = instr->shape, *in = instr->operands[0]->shape;
    int count = (int)strlen(types) + 1;
    if (!shape_is_tuple(shape) || shape->ntuple != count || shape->nleaves != count) return false;
    if (shape->tuple[0]->type != in->type || !shape_same_dims(shape->tuple[0], in)) return false;
    for (int k = 1; k < count; k++) {
        enum element_type want = types[k - 1] == 'i'   ? TYPE_S32
                                 : types[k - 1] == 'r' ? element_type_real_part(in->type)
                                                       : in->type;
        if (shape->tuple[k]->type != want) return false;
        if (shape->tuple[k]->count != call->units * per[k - 1]) return false;
    }
    return true;
}

static bool potrf(const struct hlo_instr *instr, struct cpu_library_call *call) {
    return call->config[LINALG_ROWS] == call->config[LINALG_COLUMNS] &&
           results_fit(instr, call, "i", (int64_t[]){1});
}

static int64_t smaller_side(const struct cpu_library_call *call) {
    int64_t rows = call->config[LINALG_ROWS], columns = call->config[LINALG_COLUMNS];
    return rows < columns ? rows : columns;
}

static bool getrf(const struct hlo_instr *instr, struct cpu_library_call *call) {
    return results_fit(instr, call, "ii", (int64_t[]){smaller_side(call), 1});
}

static bool geqrf(const struct hlo_instr *instr, struct cpu_library_call *call) {
    return results_fit(instr, call, "n", (int64_t[]){smaller_side(call)});
}

static bool geqp3(const struct hlo_instr *instr, struct cpu_library_call *call) {
    const struct shape *order = instr->noperands == 2 ? instr->operands[1]->shape : NULL;
    int64_t columns = call->config[LINALG_COLUMNS];
    return order && order->type == TYPE_S32 && order->count == call->units * columns &&
           results_fit(instr, call, "in", (int64_t[]){columns, smaller_side(call)});
}

static bool gehrd(const struct hlo_instr *instr, struct cpu_library_call *call) {
    int64_t n = call->config[LINALG_COLUMNS];
    int low = custom_call_letter(instr, "low", 1), high = custom_call_letter(instr, "high", (int)n);
    call->config[LINALG_EXTRA] = low;
    call->config[LINALG_EXTRA2] = high;
    return call->config[LINALG_ROWS] == n && low >= 1 && high <= n &&
           results_fit(instr, call, "ni", (int64_t[]){n > 0 ? n - 1 : 0, 1});
}

/* (diagonals, b) -> (diagonals, x, info) */
static bool gtsv(const struct hlo_instr *instr, struct cpu_library_call *call) {
    const struct shape *out = instr->shape;
    if (instr->noperands != 4 || !matrices(instr->operands[3]->shape, 0, call)) return false;
    if (!shape_is_tuple(out) || out->ntuple != 5 || out->nleaves != 5) return false;
    for (int k = 0; k < 4; k++) {
        const struct shape *in = instr->operands[k]->shape;
        int64_t columns = k < 3 ? 1 : call->config[LINALG_COLUMNS];
        if (!shape_is_array(in) || in->type != instr->operands[3]->shape->type ||
            in->count != call->units * call->config[LINALG_ROWS] * columns ||
            out->tuple[k]->type != in->type || !shape_same_dims(out->tuple[k], in))
            return false;
    }
    call->name = "hlocc_rt_gtsv";
    call->scratch = hlocc_rt_gtsv_scratch(call->config);
    return out->tuple[4]->type == TYPE_S32 && out->tuple[4]->count == call->units;
}

static bool orgqr(const struct hlo_instr *instr, struct cpu_library_call *call) {
    const struct shape *in = instr->operands[0]->shape;
    int64_t rows = call->config[LINALG_ROWS], columns = call->config[LINALG_COLUMNS];
    if (instr->noperands != 2 || !shape_is_array(instr->operands[1]->shape)) return false;
    const struct shape *tau = instr->operands[1]->shape;
    int64_t count = last_dim(tau, 1);
    call->config[LINALG_EXTRA] = count;
    return instr->shape->type == in->type && tau->type == in->type &&
           shape_same_dims(instr->shape, in) && columns <= rows && count <= columns &&
           tau->count == call->units * count;
}

/* (vectors, tau, c) -> c */
static bool ormqr(const struct hlo_instr *instr, struct cpu_library_call *call) {
    bool left = custom_call_flag(instr, "left", true);
    bool adjoint = custom_call_flag(instr, "transpose", false);
    int64_t flags = (left ? LINALG_LEFT : 0) | (adjoint ? LINALG_CONJUGATE : 0);
    if (instr->noperands != 3 || !matrices(instr->operands[2]->shape, flags, call)) return false;
    const struct shape *a = instr->operands[0]->shape, *tau = instr->operands[1]->shape;
    const struct shape *c = instr->operands[2]->shape;
    if (!shape_is_array(a) || !shape_is_array(tau) || a->type != c->type || tau->type != c->type ||
        instr->shape->type != c->type || !shape_same_dims(instr->shape, c))
        return false;
    int64_t rows = call->config[left ? LINALG_ROWS : LINALG_COLUMNS], count = last_dim(a, 1);
    call->config[LINALG_EXTRA] = count;
    call->name = "hlocc_rt_ormqr";
    call->scratch = hlocc_rt_ormqr_scratch(call->config);
    return last_dim(a, 2) == rows && count <= rows && a->count == call->units * rows * count &&
           tau->count == call->units * count;
}

static bool syevd(const struct hlo_instr *instr, struct cpu_library_call *call) {
    int64_t n = call->config[LINALG_COLUMNS];
    return call->config[LINALG_ROWS] == n && results_fit(instr, call, "ri", (int64_t[]){n, 1});
}

/* Without what tells whether it converged. */
static bool eigh(const struct hlo_instr *instr, struct cpu_library_call *call) {
    int64_t n = call->config[LINALG_COLUMNS];
    return call->config[LINALG_ROWS] == n && results_fit(instr, call, "r", (int64_t[]){n});
}

static bool gesdd(const struct hlo_instr *instr, struct cpu_library_call *call) {
    const struct shape *shape = instr->shape;
    int64_t rows = call->config[LINALG_ROWS], columns = call->config[LINALG_COLUMNS];
    if (!shape_is_tuple(shape) || shape->ntuple != 5 || shape->nleaves != 5) return false;
    int64_t u = last_dim(shape->tuple[2], 1), v = last_dim(shape->tuple[3], 2);
    call->config[LINALG_EXTRA] = u;
    call->config[LINALG_EXTRA2] = v;
    return u <= rows && v <= columns &&
           results_fit(instr, call, "rnni",
                       (int64_t[]){smaller_side(call), rows * u, v * columns, 1});
}

bool cpu_lapack_call(const struct hlo_instr *instr, struct cpu_library_call *call) {
    static const struct {
        const char *routine, *name;
        cpu_library_builder *fits;
        int64_t (*scratch)(const int64_t *config);
    } rows[] = {
        {"potrf_ffi", "hlocc_rt_cholesky", potrf, hlocc_rt_cholesky_scratch},
        {"getrf_ffi", "hlocc_rt_getrf", getrf, hlocc_rt_getrf_scratch},
        {"geqrf_ffi", "hlocc_rt_geqrf", geqrf, hlocc_rt_geqrf_scratch},
        {"geqp3_ffi", "hlocc_rt_geqp3", geqp3, hlocc_rt_geqp3_scratch},
        {"gehrd_ffi", "hlocc_rt_gehrd", gehrd, hlocc_rt_gehrd_scratch},
        {"orgqr_ffi", "hlocc_rt_orgqr", orgqr, hlocc_rt_orgqr_scratch},
        {"ungqr_ffi", "hlocc_rt_orgqr", orgqr, hlocc_rt_orgqr_scratch},
        {"syevd_ffi", "hlocc_rt_syevd", syevd, hlocc_rt_syevd_scratch},
        {"heevd_ffi", "hlocc_rt_syevd", syevd, hlocc_rt_syevd_scratch},
        {"eigh", "hlocc_rt_syevd", eigh, hlocc_rt_syevd_scratch},
        {"gesvd_ffi", "hlocc_rt_gesdd", gesdd, hlocc_rt_gesdd_scratch},
        {"gesdd_ffi", "hlocc_rt_gesdd", gesdd, hlocc_rt_gesdd_scratch},
    };
    const char *routine = custom_call_lapack_routine(instr);
    if (!routine) return false;
    if (strcmp(routine, "trsm_ffi") == 0) return trsm(instr, call);
    if (strcmp(routine, "gtsv_ffi") == 0) return gtsv(instr, call);
    if (strcmp(routine, "ormqr_ffi") == 0 || strcmp(routine, "unmqr_ffi") == 0)
        return ormqr(instr, call);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(routine, rows[i].routine) || instr->noperands < 1) continue;
        int64_t flags = (custom_call_reads_lower(instr) ? LINALG_LOWER : 0) |
                        (rows[i].fits != eigh ? LINALG_INFO : 0) |
                        (custom_call_letter(instr, "mode", 'V') == 'N' ? LINALG_VALUES : 0);
        if (!matrices(instr->operands[0]->shape, flags, call)) return false;
        if (!rows[i].fits(instr, call)) return false;
        call->name = rows[i].name;
        call->scratch = rows[i].scratch(call->config);
        return true;
    }
    return false;
}
