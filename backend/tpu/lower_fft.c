/* Fourier transforms along the last dimension, up to 128 at once. The transpose unit brings them
 * from rows of tiles to columns: row i of VMEM has number i of 128 transforms (fft_pass.h has the
 * work on those), and takes them back. A block is 16 groups of the layout's rows of tiles, with
 * padding, which is transformed along. Lengths and dimensions that do not fit here are written as
 * others before (passes/fft_expander.c). */
#include <math.h>

#include "backend/tpu/fft_pass.h"
#include "backend/tpu/lower.h"
#include "ir/literal.h"

enum { BLOCK_GROUPS = TPU_LANES / TPU_SUBLANES };

/* The operand's or the result's side of a block. */
struct side {
    struct tarray array;
    int64_t group_rows; /* of VMEM, that a group of rows takes: all its lane tiles */
    int64_t staged; /* row of VMEM where a block of an array in HBM is; -1: the array is there */
    int tag;
};

struct fft {
    struct job job;
    const struct hlo_instr *instr;
    int64_t type;
    int64_t n, padded; /* rows of a plane of work: n, up to the next 128 */
    int64_t groups;    /* of the array, of a block */
    int64_t block;
    bool inverse, real_input, real_result;
    struct side in, out;
    struct fft_rows table, work[2];
};

static int64_t up_to(int64_t x, int64_t unit) {
    return (x + unit - 1) / unit * unit;
}

/* ---- the table of roots of unity ---- */

/* cos (part 0) and sin of 2 pi i / n, of the transform's sign. NULL without memory. */
static struct literal *roots(const struct fft *f, int part) {
    const struct shape *shape =
        shape_array(f->job.lower->module->shapes, TYPE_F32, 1, (int64_t[]){f->n});
    struct literal *literal = literal_new(shape);
    float *values = literal ? literal->data : NULL;
    double turn = (f->inverse ? 2 : -2) * acos(-1.0);
    for (int64_t i = 0; values && i < f->n; i++) {
        double angle = turn * (double)i / (double)f->n;
        values[i] = (float)(part ? sin(angle) : cos(angle));
    }
    return literal;
}

/* Numbers of a rank-1 array, 128 a row, into rows of one number each: 8 by a permutation that takes
 * another lane to each sublane. */
static void spread_roots(struct fft *f, const struct tarray *array, int part) {
    struct kernel *k = f->job.k;
    struct loop rows;
    struct sx row = loop_begin(k, &rows, f->padded / TPU_LANES);
    treg numbers =
        k_load(k, sx_addi(row, (int32_t)array->row), MIR_STRIDE_0, sx_const(0), array->tag);
    struct sx to = sx_addi(sx_muli(k, row, TPU_LANES), (int32_t)f->table.row[part]);
    for (int i = 0; i < TPU_LANES; i += TPU_SUBLANES) {
        treg lane = k_binary_i(k, TPU_VADD, k_sublane(k), i);
        k_store(k, k_xlu(k, TPU_XPERM, numbers, lane), sx_addi(to, i), 0, f->table.tag);
    }
    loop_end(k, &rows, 0);
}

static bool make_table(struct fft *f) {
    struct tarray arrays[2];
    for (int part = 0; part < 2; part++) {
        struct literal *literal = roots(f, part);
        bool ok = literal && job_constant(&f->job, literal, &arrays[part]);
        if (literal) literal_unref(literal);
        if (!ok) return false;
        job_bring(&f->job, &arrays[part]);
        if (!arrays[part].in_vmem) return false;
    }
    job_wait(&f->job);
    for (int part = 0; part < 2; part++)
        spread_roots(f, &arrays[part], part);
    return true;
}

/* ---- a block between memory and work ---- */

/* Words from `first` on, a group's number, of a plane of a block in HBM. */
static void move_plane(struct fft *f, struct side *side, bool load, int plane, struct sx first) {
    struct kernel *k = f->job.k;
    int32_t words = (int32_t)(side->group_rows * TPU_LANES);
    int64_t from = side->array.word + plane * side->array.layout.memory_rows * TPU_LANES;
    struct sx hbm = sx_addi(sx_muli(k, first, words), (int32_t)from);
    struct sx vmem =
        sx_const((int32_t)((side->staged + plane * f->block * side->group_rows) * TPU_LANES));
    job_run(&f->job, load, sx_const(load ? FLAG_IN : FLAG_OUT), load ? hbm : vmem,
            load ? vmem : hbm, sx_const((int32_t)f->block * words), 0);
    k_emit(k, (struct mop){.op = TPU_WAIT, .literal = load ? FLAG_IN : FLAG_OUT, .imm = 1});
}

/* First row, of a plane, of a block in VMEM. */
static struct sx block_row(struct fft *f, const struct side *side, int plane, struct sx first) {
    struct kernel *k = f->job.k;
    if (side->staged >= 0)
        return sx_const((int32_t)(side->staged + plane * f->block * side->group_rows));
    struct sx row = sx_muli(k, first, (int32_t)side->group_rows);
    return sx_addi(row, (int32_t)(side->array.row + plane * side->array.layout.memory_rows));
}

/* Rows of tiles to columns: lane tile by lane tile, each 128 rows of work. */
static void turn_in(struct fft *f, int plane, struct sx first) {
    struct kernel *k = f->job.k;
    struct loop tiles;
    int32_t high = f->in.array.layout.tile_rows;
    struct sx tile = loop_begin(k, &tiles, f->in.array.layout.lane_tiles);
    struct sx row = sx_add(k, block_row(f, &f->in, plane, first), sx_muli(k, tile, high));
    struct sx to = sx_addi(sx_muli(k, tile, TPU_LANES), (int32_t)f->work[0].row[plane]);
    for (int g = 0; g < f->block; g++) {
        struct sx at = sx_addi(row, (int32_t)(g * f->in.group_rows));
        k_turn_push(k, k_load(k, at, MIR_STRIDE_1, sx_const(0), f->in.tag), g + 1 == f->block,
                    BLOCK_GROUPS);
    }
    for (int i = 0; i < TPU_LANES; i += TPU_SUBLANES)
        k_store(k, k_turn_pop(k), sx_addi(to, i), 0, f->work[0].tag);
    loop_end(k, &tiles, 0);
}

static void turn_out(struct fft *f, const struct fft_rows *work, int plane, struct sx first) {
    struct kernel *k = f->job.k;
    struct loop tiles;
    int32_t high = f->out.array.layout.tile_rows;
    treg own = high < TPU_SUBLANES ? k_binary_i(k, TPU_VLTS, k_sublane(k), high) : 0;
    struct sx tile = loop_begin(k, &tiles, f->out.array.layout.lane_tiles);
    struct sx from = sx_addi(sx_muli(k, tile, TPU_LANES), (int32_t)work->row[plane]);
    struct sx row = sx_add(k, block_row(f, &f->out, plane, first), sx_muli(k, tile, high));
    for (int i = 0; i < TPU_LANES; i += TPU_SUBLANES) {
        treg rows = k_load(k, sx_addi(from, i), MIR_STRIDE_1, sx_const(0), work->tag);
        if (f->inverse) rows = f_const_bin(k, TPU_VMULF, rows, (float)(1.0 / (double)f->n));
        k_turn_push(k, rows, i + TPU_SUBLANES == TPU_LANES, (int)f->block);
    }
    for (int g = 0; g < f->block; g++)
        k_store(k, k_turn_pop(k), sx_addi(row, (int32_t)(g * f->out.group_rows)), own, f->out.tag);
    loop_end(k, &tiles, 0);
}

static void clear_imaginary(struct fft *f) {
    struct kernel *k = f->job.k;
    struct loop rows;
    treg zero = k_const(k, 0);
    struct sx row = sx_muli(k, loop_begin(k, &rows, f->padded / TPU_SUBLANES), TPU_SUBLANES);
    k_store(k, zero, sx_addi(row, (int32_t)f->work[0].row[1]), 0, f->work[0].tag);
    loop_end(k, &rows, 0);
}

/* The numbers past the middle of a real result's transform: number n - i is the conjugate of i. */
static void mirror(struct fft *f) {
    struct kernel *k = f->job.k;
    int64_t count = (f->n - 1) / 2;
    struct loop groups;
    if (count <= 0) return;
    struct sx group = loop_begin(k, &groups, (count + TPU_SUBLANES - 1) / TPU_SUBLANES);
    struct sx i = sx_muli(k, group, -TPU_SUBLANES);
    /* Sublane s: number n - 1 - 8 group - 7 + s, from number 1 + 8 group + 7 - s. */
    struct sx to = sx_addi(i, (int32_t)f->n - TPU_SUBLANES);
    struct sx from = sx_addi(sx_muli(k, group, TPU_SUBLANES), TPU_SUBLANES);
    treg number = k_binary_s(k, TPU_VRSUB, k_sublane(k), sx_reg(k, from));
    treg there = k_binary_i(k, TPU_VLES, number, (int32_t)count);
    for (int plane = 0; plane < 2; plane++) {
        int32_t base = (int32_t)f->work[0].row[plane];
        treg rows = k_load(k, sx_addi(from, base), MIR_STRIDE_IMM, sx_const(-1), f->work[0].tag);
        k_store(k, plane ? f_neg(k, rows) : rows, sx_addi(to, base), there, f->work[0].tag);
    }
    loop_end(k, &groups, 0);
}

/* ---- all of it ---- */

/* Which work array the result is in. */
static int run_passes(struct fft *f) {
    int64_t radices[FFT_MOST_FACTORS], s = 1;
    int count = fft_radices(f->n, radices);
    for (int i = 0; i < count; i++) {
        struct fft_pass pass = {.n = f->n,
                                .r = radices[i],
                                .m = f->n / s / radices[i],
                                .s = s,
                                .inverse = f->inverse,
                                .from = f->work[i % 2],
                                .to = f->work[(i + 1) % 2],
                                .table = f->table};
        fft_emit_pass(f->job.k, &pass);
        s *= radices[i];
    }
    return count % 2;
}

static void run_block(struct fft *f, struct sx first) {
    int in_planes = f->real_input ? 1 : 2, out_planes = f->real_result ? 1 : 2;
    for (int p = 0; p < in_planes && f->in.staged >= 0; p++)
        move_plane(f, &f->in, true, p, first);
    for (int p = 0; p < in_planes; p++)
        turn_in(f, p, first);
    if (f->real_input) clear_imaginary(f);
    if (f->real_result) mirror(f);
    int at = run_passes(f);
    for (int p = 0; p < out_planes; p++)
        turn_out(f, &f->work[at], p, first);
    for (int p = 0; p < out_planes && f->out.staged >= 0; p++)
        move_plane(f, &f->out, false, p, first);
}

static bool find_side(struct fft *f, struct side *side) {
    const struct tpu_layout *layout = &side->array.layout;
    side->group_rows = layout->lane_tiles * layout->tile_rows;
    side->staged = -1;
    side->tag = side->array.tag;
    if (side->array.in_vmem) return true;
    side->tag = k_tag(f->job.k);
    side->staged = job_rows(&f->job, f->block * side->group_rows * layout->planes);
    return side->staged >= 0;
}

static bool make_rows(struct fft *f, struct fft_rows *rows) {
    rows->tag = k_tag(f->job.k);
    rows->row[0] = job_rows(&f->job, 2 * f->padded);
    rows->row[1] = rows->row[0] + f->padded;
    return rows->row[0] >= 0;
}

static void read_instr(struct fft *f) {
    const struct hlo_instr *instr = f->instr;
    struct int_list length = instr_ints(instr, ATTR_FFT_LENGTH);
    f->type = instr_int(instr, ATTR_FFT_TYPE, ENUM_FFT_TYPE_FFT);
    f->inverse = f->type == ENUM_FFT_TYPE_IFFT || f->type == ENUM_FFT_TYPE_IRFFT;
    f->real_input = f->type == ENUM_FFT_TYPE_RFFT;
    f->real_result = f->type == ENUM_FFT_TYPE_IRFFT;
    f->n = length.count ? length.v[length.count - 1] : 1;
    f->padded = up_to(f->n, TPU_LANES);
}

/* Where operand and result are: as a whole in VMEM, or, with `stream`, where they live. */
static bool find_arrays(struct fft *f, bool stream) {
    struct job *job = &f->job;
    if (stream)
        return leaf_array(job->lower, f->instr, 0, &f->out.array) &&
               leaf_array(job->lower, f->instr->operands[0], 0, &f->in.array);
    job_result(job, 0, &f->out.array);
    job_stage(job, f->instr, 0);
    const struct value_binding *operand = value_find(&job->g, f->instr->operands[0], 0);
    if (operand) f->in.array = operand->array;
    return operand != NULL;
}

static bool prepare(struct fft *f, bool stream) {
    if (!make_rows(f, &f->table) || !make_rows(f, &f->work[0]) || !make_rows(f, &f->work[1]) ||
        !find_arrays(f, stream))
        return false;
    const struct tpu_layout *layout = &f->in.array.layout;
    f->groups = layout->majors * layout->row_tiles;
    f->block = f->groups < BLOCK_GROUPS ? f->groups : BLOCK_GROUPS;
    return find_side(f, &f->in) && find_side(f, &f->out);
}

static const char *why_not(const struct fft *f) {
    const struct lower *lower = f->job.lower;
    int64_t radices[FFT_MOST_FACTORS];
    if (f->n > 1 && !fft_radices(f->n, radices))
        return "transforms of this length are not supported on TPU: a prime factor is too large";
    /* Roots and two arrays of columns, two planes each; blocks of operand and result. */
    int64_t rows = (6 + 4) * f->padded;
    return arena_printf(
        lower->arena,
        "Resource exhausted: transforms of length %lld need %lld KiB of VMEM, a core "
        "of TPU %s has %lld KiB, of which %lld KiB are taken by others",
        (long long)f->n, (long long)rows / 2, lower->options->chip.name,
        (long long)(lower->options->chip.vmem_bytes / 1024),
        (long long)tpu_memory_top(lower->memory, f->instr) / 2);
}

static void run(struct fft *f) {
    struct kernel *k = f->job.k;
    struct loop blocks;
    struct sx block = loop_begin(k, &blocks, (f->groups + f->block - 1) / f->block);
    struct sx first = sx_muli(k, block, (int32_t)f->block);
    /* The last block may overlap the one before, whose work it repeats. */
    run_block(f, sx_clamp(k, first, 0, (int32_t)(f->groups - f->block)));
    loop_end(k, &blocks, 0);
    job_take(&f->job, 0, &f->out.array);
}

bool lower_fft(struct lower *lower, const struct hlo_instr *instr) {
    struct fft f = {.instr = instr};
    int64_t radices[FFT_MOST_FACTORS];
    if (instr->shape->count == 0) return true;
    read_instr(&f);
    bool known = f.n == 1 || fft_radices(f.n, radices);
    for (int stream = 0; stream < 2 && known; stream++) {
        job_open(&f.job, lower, instr);
        if (prepare(&f, stream) && make_table(&f)) {
            run(&f);
            return job_close(&f.job);
        }
        arena_free(f.job.arena);
    }
    job_open(&f.job, lower, instr);
    f.job.g.why = why_not(&f);
    return job_close(&f.job);
}
