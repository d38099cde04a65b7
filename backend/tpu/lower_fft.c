/* Fourier transforms by their definition, one dimension after another: every place sums over the
 * dimension, with factors from the sine and cosine of an angle that whole numbers have reduced. */
#include <math.h>

#include "backend/tpu/lower.h"

struct pass {
    int dim;
    int64_t size;  /* of the transform */
    int64_t terms; /* summed over: size, or size / 2 + 1 where the rest mirrors it */
    bool inverse;
    bool halves; /* terms but the first and the middle one count twice; the result is real */
};

/* cos and sin of 2 pi (j * k mod n) / n, with the transform's sign. */
static struct tval root_of_unity(struct kernel *k, const struct pass *pass, struct sx j,
                                 struct ix at) {
    treg product = k_binary_s(k, TPU_VMUL, ix_reg(k, at), sx_reg(k, j));
    treg reduced = k_eup(k, TPU_EREMU, product, k_const(k, (int32_t)pass->size));
    float unit = (float)(2 * acos(-1.0) / (double)pass->size);
    treg angle = f_const_bin(k, TPU_VMULF, k_unary(k, TPU_VS2F, reduced), unit);
    treg sine = k_eup(k, TPU_ESIN, angle, 0);
    if (!pass->inverse) sine = f_neg(k, sine);
    return (struct tval){{k_eup(k, TPU_ECOS, angle, 0), sine}};
}

static treg f_mul(struct kernel *k, treg a, treg b) {
    return k_binary(k, TPU_VMULF, a, b);
}

static treg weight(struct kernel *k, const struct pass *pass, struct sx j) {
    treg number = k_from_scalar(k, sx_reg(k, j)), one = k_fconst(k, 1);
    treg w = k_select(k, k_binary_i(k, TPU_VEQ, number, 0), one, k_fconst(k, 2));
    if (pass->size % 2) return w;
    return k_select(k, k_binary_i(k, TPU_VEQ, number, (int32_t)(pass->size / 2)), one, w);
}

static void run_pass(struct job *job, const struct pass *pass, const struct tarray *from,
                     const struct tarray *to) {
    struct kernel *k = job->k;
    struct tile_loops loops;
    struct ttile tile;
    struct loop terms;
    tiles_begin(k, &to->layout, &loops, &tile);
    treg valid = tile_valid(k, &to->layout, &tile);
    treg real = k_copy(k, k_const(k, 0)), imag = k_copy(k, k_const(k, 0));
    struct sx j = loop_begin(k, &terms, pass->terms);
    struct ix index[SHAPE_MAX_RANK];
    for (int d = 0; d < from->layout.rank; d++)
        index[d] = d == pass->dim ? ix_scalar(j) : tile.index[d];
    struct tval x = fetch(&job->g.f, from, index, valid);
    struct tval w = root_of_unity(k, pass, j, tile.index[pass->dim]);
    treg re = f_mul(k, x.v[0], w.v[0]), im = f_mul(k, x.v[0], w.v[1]);
    if (x.v[1]) {
        re = k_binary(k, TPU_VSUBF, re, f_mul(k, x.v[1], w.v[1]));
        im = k_binary(k, TPU_VADDF, im, f_mul(k, x.v[1], w.v[0]));
    }
    if (pass->halves) re = f_mul(k, re, weight(k, pass, j));
    k_move(k, real, 0, k_binary(k, TPU_VADDF, real, re));
    k_move(k, imag, 0, k_binary(k, TPU_VADDF, imag, im));
    loop_end(k, &terms, 0);
    struct tval sum = {{real, pass->halves ? 0 : imag}};
    for (int p = 0; p < 2 && pass->inverse && sum.v[p]; p++)
        sum.v[p] = f_const_bin(k, TPU_VMULF, sum.v[p], (float)(1.0 / (double)pass->size));
    tile_store(&job->g.f, to, &tile, sum);
    tiles_end(k, &loops);
}

/* Passes in their order: a real input's last dimension first, a real result's last. */
static int plan(const struct hlo_instr *instr, struct pass *passes) {
    int64_t type = instr_int(instr, ATTR_FFT_TYPE, ENUM_FFT_TYPE_FFT);
    struct int_list length = instr_ints(instr, ATTR_FFT_LENGTH);
    bool inverse = type == ENUM_FFT_TYPE_IFFT || type == ENUM_FFT_TYPE_IRFFT;
    int rank = instr->shape->rank, n = length.count;
    for (int i = 0; i < n; i++) {
        /* i-th from the minor end, or from the major one where the result is real. */
        int at = type == ENUM_FFT_TYPE_IRFFT ? i : n - 1 - i;
        passes[i] = (struct pass){
            .dim = rank - n + at, .size = length.v[at], .terms = length.v[at], .inverse = inverse};
    }
    if (type == ENUM_FFT_TYPE_IRFFT) {
        passes[n - 1].terms = passes[n - 1].size / 2 + 1;
        passes[n - 1].halves = true;
    }
    return n;
}

/* The shape after a pass: complex, with the result's size in that dimension. */
static const struct shape *shape_after(struct job *job, const struct tpu_layout *before,
                                       const struct pass *pass) {
    int64_t dims[SHAPE_MAX_RANK];
    for (int d = 0; d < before->rank; d++)
        dims[d] = d == pass->dim ? job->instr->shape->dims[d] : before->dims[d];
    return shape_array(job->lower->module->shapes, TYPE_C64, before->rank, dims);
}

bool lower_fft(struct lower *lower, const struct hlo_instr *instr) {
    struct job job;
    struct pass passes[SHAPE_MAX_RANK];
    struct tarray result;
    int n = plan(instr, passes);
    if (instr->shape->count == 0) return true;
    job_open(&job, lower, instr);
    job_result(&job, 0, &result);
    job_stage(&job, instr, 0);
    const struct value_binding *operand = value_find(&job.g, instr->operands[0], 0);
    bool ready = operand != NULL;
    struct tarray from = ready ? operand->array : (struct tarray){0}, to;
    for (int i = 0; i < n && ready; i++) {
        if (i + 1 == n) {
            to = result;
        } else {
            const struct shape *shape = shape_after(&job, &from.layout, &passes[i]);
            ready = shape && job_scratch(&job, shape, &to);
            if (!ready) job.g.why = "transforms of this size are not supported on TPU";
        }
        if (ready) run_pass(&job, &passes[i], &from, &to);
        from = to;
    }
    if (ready) job_take(&job, 0, &result);
    return job_close(&job);
}
