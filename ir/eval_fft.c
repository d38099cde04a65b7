/* Fourier transforms of any length, in double: Cooley and Tukey's recursion over the prime factors
 * of the length. */
#include <complex.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/eval_internal.h"

static int64_t smallest_factor(int64_t n) {
    if (n % 2 == 0) return 2;
    for (int64_t p = 3; p * p <= n; p += 2)
        if (n % p == 0) return p;
    return n;
}

/* out[k] = sum over j of in[j stride] w^(jk), where roots[i] = w^i for the whole length
 * n * step; work holds n values. */
static void transform(double complex *out, const double complex *in, int64_t n, int64_t stride,
                      const double complex *roots, int64_t step, double complex *work) {
    int64_t p, m;

    if (n == 1) {
        out[0] = in[0];
        return;
    }
    p = smallest_factor(n);
    m = n / p;
    for (int64_t r = 0; r < p; r++)
        transform(out + r * m, in + r * stride, m, stride * p, roots, step * p, work);
    memcpy(work, out, (size_t)n * sizeof *work);
    for (int64_t k = 0; k < n; k++) {
        double complex sum = 0;

        for (int64_t r = 0; r < p; r++) {
            double complex w = roots[(r * k) % n * step], x = work[r * m + k % m];

            sum += CMPLX(creal(w) * creal(x) - cimag(w) * cimag(x),
                         creal(w) * cimag(x) + cimag(w) * creal(x));
        }
        out[k] = sum;
    }
}

struct fourier {
    int64_t n;
    double complex *roots, *in, *out, *work;
};

static void fourier_free(struct fourier *f) {
    free(f->roots);
    free(f->in);
    free(f->out);
    free(f->work);
}

static bool fourier_init(struct fourier *f, struct eval *e, const struct hlo_instr *instr,
                         int64_t n, bool inverse) {
    double turn = (inverse ? 2.0 : -2.0) * acos(-1.0);

    f->n = n;
    f->roots = eval_scratch(e, instr, n, sizeof *f->roots);
    f->in = eval_scratch(e, instr, n, sizeof *f->in);
    f->out = eval_scratch(e, instr, n, sizeof *f->out);
    f->work = eval_scratch(e, instr, n, sizeof *f->work);
    if (!f->roots || !f->in || !f->out || !f->work) return false;
    for (int64_t k = 0; k < n; k++)
        f->roots[k] = CMPLX(cos(turn * (double)k / (double)n), sin(turn * (double)k / (double)n));
    return true;
}

/* Transforms every line of dims[dim] values along a dimension; `data` is row-major. */
static bool transform_lines(struct eval *e, const struct hlo_instr *instr, double complex *data,
                            int rank, const int64_t *dims, int dim, bool inverse) {
    struct fourier f = {0};
    int64_t inner = 1, outer = 1, n = dims[dim];
    bool good;

    for (int i = 0; i < rank; i++) {
        if (i < dim)
            outer *= dims[i];
        else if (i > dim)
            inner *= dims[i];
    }
    if (n < 1) return true;
    good = fourier_init(&f, e, instr, n, inverse);
    for (int64_t line = 0; good && line < outer * inner; line++) {
        double complex *first = data + line / inner * n * inner + line % inner;

        for (int64_t k = 0; k < n; k++)
            f.in[k] = first[k * inner];
        transform(f.out, f.in, n, 1, f.roots, 1, f.work);
        for (int64_t k = 0; k < n; k++)
            first[k * inner] = inverse ? f.out[k] / (double)n : f.out[k];
        good = eval_charge(e, instr, n);
    }
    fourier_free(&f);
    return good;
}

/* The operand in the box that is transformed: for IRFFT the last dimension is completed. */
static void load_box(const struct literal *in, double complex *box, int64_t width) {
    const struct shape *shape = in->shape;
    int64_t have = shape->dims[shape->rank - 1], rows = have ? shape->count / have : 0;
    double part[2];

    for (int64_t r = 0; r < rows; r++)
        for (int64_t k = 0; k < have && k < width; k++) {
            literal_get_complex(in, r * have + k, part);
            box[r * width + k] = CMPLX(part[0], part[1]);
        }
}

/* Fills the upper half of each line with the conjugates of the lower one. */
static void complete_lines(double complex *box, int64_t rows, int64_t width) {
    for (int64_t r = 0; r < rows; r++) {
        double complex *line = box + r * width;

        line[0] = creal(line[0]);
        if (width % 2 == 0) line[width / 2] = creal(line[width / 2]);
        for (int64_t k = width / 2 + 1; k < width; k++)
            line[k] = conj(line[width - k]);
    }
}

static void store_box(struct literal *out, const double complex *box, int64_t width) {
    const struct shape *shape = out->shape;
    int64_t have = shape->dims[shape->rank - 1], rows = have ? shape->count / have : 0;

    for (int64_t r = 0; r < rows; r++)
        for (int64_t k = 0; k < have && k < width; k++) {
            double complex x = box[r * width + k];

            if (element_type_is_complex(shape->type))
                literal_set_complex(out, r * have + k, creal(x), cimag(x));
            else
                literal_set_double(out, r * have + k, creal(x));
        }
}

static bool transform_box(struct eval *e, const struct hlo_instr *instr, double complex *box,
                          int rank, const int64_t *dims, int axes) {
    int64_t type = instr_int(instr, ATTR_FFT_TYPE, ENUM_FFT_TYPE_FFT), rows = 1;
    bool inverse = type == ENUM_FFT_TYPE_IFFT || type == ENUM_FFT_TYPE_IRFFT;

    /* The half-length dimension comes last in an inverse real transform. */
    for (int i = 0; i < rank - 1; i++)
        rows *= dims[i];
    if (type == ENUM_FFT_TYPE_IRFFT) {
        for (int i = rank - axes; i < rank - 1; i++)
            if (!transform_lines(e, instr, box, rank, dims, i, true)) return false;
        complete_lines(box, rows, dims[rank - 1]);
        return transform_lines(e, instr, box, rank, dims, rank - 1, true);
    }
    for (int i = rank - 1; i >= rank - axes; i--)
        if (!transform_lines(e, instr, box, rank, dims, i, inverse)) return false;
    return true;
}

struct literal *eval_fft(struct eval *e, const struct hlo_instr *instr, struct literal **ops) {
    struct int_list length = instr_ints(instr, ATTR_FFT_LENGTH);
    const struct shape *in = ops[0]->shape, *out = instr->shape;
    int64_t dims[SHAPE_MAX_RANK], count = 1;
    double complex *box;
    struct literal *result = NULL;

    if (length.count < 1 || length.count > in->rank || in->rank != out->rank)
        return eval_error(e, instr, "fft_length does not fit the operand");
    for (int i = 0; i < in->rank; i++) {
        int at = i - (in->rank - length.count);

        dims[i] = at < 0 ? in->dims[i] : length.v[at];
        if (dims[i] < 0 || __builtin_mul_overflow(count, dims[i], &count) ||
            (i < in->rank - 1 && (dims[i] != in->dims[i] || dims[i] != out->dims[i])))
            return eval_error(e, instr, "fft_length does not fit the operand");
    }
    box = eval_scratch(e, instr, count, sizeof *box);
    if (!box) return NULL;
    load_box(ops[0], box, dims[in->rank - 1]);
    if (count == 0 || transform_box(e, instr, box, in->rank, dims, length.count))
        result = eval_new(e, instr, out);
    if (result) store_box(result, box, dims[in->rank - 1]);
    free(box);
    return result;
}
