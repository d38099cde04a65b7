/* LAPACK's routines, as JAX calls them on CPUs and XLA by names of its own, in HLO: for targets
 * that have no library. The texts are in lapack_templates.h; this file says what their words stand
 * for. */
#include <string.h>

#include "ir/custom_call.h"
#include "passes/lapack_jacobi.h"
#include "passes/lapack_templates.h"
#include "passes/pass.h"
#include "passes/template.h"

enum { MOST_WORDS = 64 };

struct call {
    struct hlo_instr *instr;
    struct arena *arena;
    int64_t batch, rows, columns, least;
    bool is_complex;
    struct template_word words[MOST_WORDS];
    int nwords;
};

static void word(struct call *c, const char *name, const char *text) {
    if (c->nwords < MOST_WORDS) c->words[c->nwords++] = (struct template_word){name, text};
}

static void number(struct call *c, const char *name, int64_t value) {
    word(c, name, arena_printf(c->arena, "%lld", (long long)value));
}

static void flag(struct call *c, const char *name, bool value) {
    word(c, name, value ? "true" : "false");
}

static const char *shape_text(struct call *c, const struct shape *shape) {
    const char *dims = "";
    for (int d = 0; d < shape->rank; d++)
        dims = arena_printf(c->arena, "%s%s%lld", dims, d ? "," : "", (long long)shape->dims[d]);
    return arena_printf(c->arena, "%s[%s]", element_type_name(shape->type), dims);
}

/* What is written in another way for complex numbers. */
static void type_words(struct call *c) {
    static const struct {
        const char *name, *of_real, *of_complex;
    } words[] = {
        {"zero", "0", "(0,0)"},
        {"re", "%", "real(%)"},
        {"realpart", "copy(%)", "real(%)"},
        {"conj", "%", "complex(real(%), negate(imag(%)))"},
        {"size", "abs(%)", "add(abs(real(%)), abs(imag(%)))"},
        {"extent", "abs(%)", "maximum(abs(real(%)), abs(imag(%)))"},
        {"square", "multiply(%, %)", "add(multiply(real(%), real(%)), multiply(imag(%), imag(%)))"},
        {"withim", "abs(%)", "add(%, abs(imag(alpha)))"},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        word(c, words[i].name, c->is_complex ? words[i].of_complex : words[i].of_real);
    enum element_type type = c->instr->operands[0]->shape->type;
    word(c, "T", element_type_name(type));
    word(c, "R", element_type_name(element_type_real_part(type)));
}

static void shape_words(struct call *c) {
    static const char *const inputs[] = {"IN", "IN1", "IN2", "IN3"};
    static const char *const outputs[] = {"O0", "O1", "O2", "O3", "O4"};
    const struct shape *shape = c->instr->shape;
    for (int i = 0; i < c->instr->noperands && i < 4; i++)
        word(c, inputs[i], shape_text(c, c->instr->operands[i]->shape));
    if (!shape_is_tuple(shape)) word(c, outputs[0], shape_text(c, shape));
    for (int i = 0; shape_is_tuple(shape) && i < shape->ntuple && i < 5; i++)
        word(c, outputs[i], shape_text(c, shape->tuple[i]));
    number(c, "B", c->batch);
    number(c, "M", c->rows);
    number(c, "N", c->columns);
    number(c, "K", c->least);
}

/* The leaves of the result: the first is like the operand, the others have a number per matrix. */
static bool results_fit(const struct call *c, int count, const int64_t *per) {
    const struct shape *shape = c->instr->shape;
    if (!shape_is_tuple(shape) || shape->ntuple != count ||
        !shape_same_dims(shape->tuple[0], c->instr->operands[0]->shape))
        return false;
    for (int k = 1; k < count; k++)
        if (!shape_is_array(shape->tuple[k]) || shape->tuple[k]->count != c->batch * per[k - 1])
            return false;
    return true;
}

/* ---- one function a routine: its words; NULL where the call is not what it takes ---- */

typedef const char *describe(struct call *c);

static const char *potrf(struct call *c) {
    if (c->rows != c->columns || !results_fit(c, 2, (int64_t[]){1})) return NULL;
    const char *corner = "";
    const struct shape *shape = c->instr->operands[0]->shape;
    for (int d = 0; d < shape->rank; d++)
        corner = arena_printf(c->arena, "%s%s[0:%lld]", corner, d ? "," : "",
                              d + 2 < shape->rank ? (long long)shape->dims[d] : 1);
    word(c, "CORNER", corner);
    word(c, "I1", shape_text(c, c->instr->shape->tuple[1]));
    flag(c, "lower", custom_call_reads_lower(c->instr));
    return lapack_potrf;
}

static const char *trsm(struct call *c) {
    int how = custom_call_letter(c->instr, "trans_x", 'N');
    if (c->instr->noperands != 2 || !shape_is_array(c->instr->shape)) return NULL;
    flag(c, "left", custom_call_letter(c->instr, "side", 'L') == 'L');
    flag(c, "lower", custom_call_letter(c->instr, "uplo", 'L') == 'L');
    flag(c, "unit", custom_call_letter(c->instr, "diag", 'N') == 'U');
    word(c, "transpose", how == 'N' ? "NO_TRANSPOSE" : how == 'C' ? "ADJOINT" : "TRANSPOSE");
    return lapack_trsm;
}

static const char *getrf(struct call *c) {
    if (!results_fit(c, 3, (int64_t[]){c->least, 1})) return NULL;
    word(c, "STATE", "(s32[], $T[$B,$M,$N], s32[$B,$K], s32[$B])");
    word(c, "STEPS", "$K");
    return lapack_getrf;
}

static const char *geqrf(struct call *c) {
    if (!results_fit(c, 2, &c->least)) return NULL;
    word(c, "STATE", "(s32[], $T[$B,$M,$N], $T[$B,$K])");
    word(c, "STEPS", "$K");
    word(c, "below", "copy(%)");
    return lapack_geqrf;
}

static const char *gehrd(struct call *c) {
    int64_t n = c->rows, per[] = {n - 1, 1};
    int low = custom_call_letter(c->instr, "low", 1);
    int high = custom_call_letter(c->instr, "high", (int)n);
    if (n != c->columns || n < 2 || low < 1 || high < low || high > n || !results_fit(c, 3, per))
        return NULL;
    word(c, "STATE", "(s32[], $T[$B,$M,$N], $T[$B,$TAUS])");
    number(c, "STEPS", high - low);
    number(c, "LOW", low - 1);
    number(c, "HIGH", high);
    number(c, "TAUS", n - 1);
    word(c, "below", "and(%, active)");
    return lapack_gehrd;
}

/* `reflections` of the columns of operand 0, last first, or the adjoint of all: first first. */
static const char *apply(struct call *c, int64_t reflections, int64_t columns, bool adjoint) {
    word(c, "STATE", "(s32[], $T[$B,$M,$C], $T[$B,$M,$N], $T[$B,$L])");
    word(c, "STEPS", "$L");
    word(c, "ORDER", adjoint ? "copy(s)" : "subtract(s32[] constant($LAST), s)");
    word(c, "factor", adjoint ? "$conj(%)" : "%");
    number(c, "L", reflections);
    number(c, "LAST", reflections - 1);
    number(c, "C", columns);
    return lapack_apply;
}

static const char *orgqr(struct call *c) {
    const struct hlo_instr *instr = c->instr;
    if (instr->noperands != 2 || !shape_same_dims(instr->shape, instr->operands[0]->shape) ||
        instr->operands[1]->shape->rank < 1 || c->columns > c->rows)
        return NULL;
    const struct shape *tau = instr->operands[1]->shape;
    int64_t count = tau->dims[tau->rank - 1];
    if (count > c->columns || tau->count != c->batch * count) return NULL;
    word(c, "BEGIN",
         " row3 = s32[$B,$M,$N] iota(), iota_dimension=1\n"
         " column3 = s32[$B,$M,$N] iota(), iota_dimension=2\n"
         " eye = compare(row3, column3), direction=EQ\n"
         " c = $T[$B,$M,$N] convert(eye)\n");
    word(c, "END", " ROOT r = $O0 reshape(q)\n");
    return apply(c, count, c->columns, false);
}

/* (vectors, tau, c) -> Q c or Q^H c; c Q and c Q^H by the adjoint of c. */
static const char *ormqr(struct call *c) {
    const struct hlo_instr *instr = c->instr;
    if (instr->noperands != 3 || !shape_same_dims(instr->shape, instr->operands[2]->shape))
        return NULL;
    bool left = custom_call_flag(instr, "left", true);
    bool adjoint = custom_call_flag(instr, "transpose", false) == left;
    const struct shape *in = instr->shape;
    if (in->rank < 2) return NULL;
    int64_t height = in->dims[in->rank - 2], width = in->dims[in->rank - 1];
    if ((left ? height : width) != c->rows || c->columns > c->rows ||
        in->count != c->batch * height * width || in->count == 0 ||
        instr->operands[1]->shape->count != c->batch * c->columns)
        return NULL;
    word(c, "BEGIN",
         left ? " given_c = $IN2 parameter(2)\n c = $T[$B,$M,$C] reshape(given_c)\n"
              : " given_c = $IN2 parameter(2)\n across = $T[$B,$C,$M] reshape(given_c)\n"
                " c = transpose($conj(across)), dimensions={0,2,1}\n");
    word(c, "END",
         left ? " ROOT r = $O0 reshape(q)\n"
              : " back = transpose($conj(q)), dimensions={0,2,1}\n ROOT r = $O0 reshape(back)\n");
    return apply(c, c->columns, left ? width : height, adjoint);
}

static const char *geqp3(struct call *c) {
    const struct hlo_instr *instr = c->instr;
    int64_t per[] = {c->columns, c->least};
    if (instr->noperands != 2 || instr->operands[1]->shape->type != TYPE_S32 ||
        instr->operands[1]->shape->count != c->batch * c->columns || !results_fit(c, 3, per) ||
        instr->shape->tuple[1]->type != TYPE_S32)
        return NULL;
    word(c, "STATE", "(s32[], $T[$B,$M,$N], s32[$B,$N], $T[$B,$K], s32[$B])");
    word(c, "STEPS", "$K");
    word(c, "below", "copy(%)");
    return lapack_geqp3;
}

/* (below, diagonal, above, b) -> (what is left of the three, x, info) */
static const char *gtsv(struct call *c) {
    const struct hlo_instr *instr = c->instr;
    const struct shape *shape = instr->shape;
    if (instr->noperands != 4 || !shape_is_tuple(shape) || shape->ntuple != 5 ||
        shape->tuple[4]->count != c->batch)
        return NULL;
    for (int k = 0; k < 4; k++)
        if (!shape_same_dims(shape->tuple[k], instr->operands[k]->shape) ||
            shape->tuple[k]->count != c->batch * c->rows * (k < 3 ? 1 : c->columns))
            return NULL;
    word(c, "STATE", "(s32[], $T[$B,$M], $T[$B,$M], $T[$B,$M], $T[$B,$M,$N], s32[$B])");
    word(c, "BACK",
         "(s32[], $T[$B,$M], $T[$B,$M], $T[$B,$M], $T[$B,$M,$N], s32[$B], $T[$B,$N], $T[$B,$N])");
    word(c, "STEPS", "$LAST");
    number(c, "LAST", c->rows - 1);
    return lapack_gtsv;
}

/* ---- Jacobi's rotations ---- */

/* Along a dimension, pieces of a matrix of $E rows one behind the other: rows move on, and the
 * first one stays. `slice` has `%s` for what it is along the dimension. */
static const char *shuffle(struct call *c, int64_t half, int dim, const char *before,
                           const char *after) {
    const int64_t cuts[5][2] = {
        {0, 1}, {half, half + 1}, {1, half - 1}, {half + 1, 2 * half}, {half - 1, half}};
    const char *pieces = "";
    if (half == 1) return "copy(%)";
    for (int i = 0; i < 5; i++) {
        if (cuts[i][0] >= cuts[i][1]) continue;
        pieces = arena_printf(c->arena, "%s%sslice(%%), slice={%s[%lld:%lld]%s}", pieces,
                              *pieces ? ", " : "", before, (long long)cuts[i][0],
                              (long long)cuts[i][1], after);
    }
    return arena_printf(c->arena, "concatenate(%s), dimensions={%d}", pieces, dim);
}

static void jacobi_words(struct call *c, int64_t size, const char *state) {
    int64_t half = (size + 1) / 2;
    number(c, "E", 2 * half);
    number(c, "H", half);
    number(c, "PAD", 2 * half - size);
    number(c, "STEPS", 2 * half - 1);
    word(c, "STATE", state);
    word(c, "shufflerows", shuffle(c, half, 1, "[0:$B],", ",[0:$E]"));
    word(c, "shufflelong", shuffle(c, half, 1, "[0:$B],", ",[0:$M]"));
    word(c, "shufflecolumns", shuffle(c, half, 2, "[0:$B],[0:$E],", ""));
}

static const char *eigen(struct call *c, int results) {
    if (c->rows != c->columns || !results_fit(c, results, (int64_t[]){c->rows, 1})) return NULL;
    jacobi_words(c, c->rows, "(s32[], $T[$B,$E,$E], $T[$B,$E,$E])");
    word(c, "SIDE", custom_call_reads_lower(c->instr) ? "GE" : "LE");
    word(c, "RESULT",
         results == 3 ? " info = $O2 broadcast(nought), dimensions={}\n"
                        " ROOT r = tuple(vectors, values2, info) }\n"
                      : " ROOT r = tuple(vectors, values2) }\n");
    return lapack_syevd;
}

static const char *syevd(struct call *c) {
    return eigen(c, 3);
}

static const char *eigh(struct call *c) {
    return eigen(c, 2);
}

/* The result is (operand, s, u, v^H, info); of u and v^H the one on the long side may be wanted
 * with more vectors than there are values. */
static const char *gesdd(struct call *c) {
    const struct shape *shape = c->instr->shape;
    if (!shape_is_tuple(shape) || shape->ntuple != 5 ||
        shape->tuple[1]->count != c->batch * c->least)
        return NULL;
    const struct shape *u = shape->tuple[2], *vt = shape->tuple[3];
    if (u->rank < 2 || vt->rank < 2 || !u->count || !vt->count) return NULL;
    int64_t u_columns = u->dims[u->rank - 1], v_rows = vt->dims[vt->rank - 2];
    if (u_columns > c->rows || v_rows > c->columns || u->count != c->batch * c->rows * u_columns ||
        vt->count != c->batch * c->columns * v_rows || shape->tuple[4]->count != c->batch)
        return NULL;
    bool wide = c->rows < c->columns;
    int64_t longer = wide ? c->columns : c->rows, wanted = wide ? v_rows : u_columns;
    int64_t others = wide ? u_columns : v_rows;
    if (others > c->least) return NULL;
    word(c, "BEGIN",
         wide ? " across = $T[$B,$N,$M] reshape(given)\n tall = $CONJUGATE(across)\n"
              : " a_tall = $T[$B,$M,$N] reshape(given)\n"
                " tall = transpose(a_tall), dimensions={0,2,1}\n");
    word(c, "CONJUGATE", c->is_complex ? "$conj(%)" : "copy(%)");
    number(c, "WANTED", wanted);
    number(c, "OTHERS", others);
    word(c, "END",
         wide ? " left_v = transpose(slice(v), slice={[0:$B],[0:$OTHERS],[0:$N]}), "
                "dimensions={0,2,1}\n left = $O2 reshape(left_v)\n"
                " right_u = slice(basis3), slice={[0:$B],[0:$WANTED],[0:$M]}\n"
                " right = $O3 reshape($conj(right_u))\n"
              : " left_u = transpose(slice(basis3), slice={[0:$B],[0:$WANTED],[0:$M]}), "
                "dimensions={0,2,1}\n left = $O2 reshape(left_u)\n"
                " right_v = slice(v), slice={[0:$B],[0:$OTHERS],[0:$N]}\n"
                " right = $O3 reshape($conj(right_v))\n");
    int64_t rows = wanted > c->least ? wanted : c->least;
    number(c, "U", rows);
    number(c, "MORE", rows - c->least);
    c->rows = longer;
    c->columns = c->least;
    jacobi_words(c, c->least, "(s32[], $T[$B,$E,$M], $T[$B,$E,$E], $R[$B])");
    return lapack_gesdd;
}

static const struct {
    const char *name;
    describe *words;
    int matrix; /* operand */
} routines[] = {
    {"potrf_ffi", potrf, 0}, {"trsm_ffi", trsm, 0},   {"getrf_ffi", getrf, 0},
    {"gtsv_ffi", gtsv, 3},   {"geqrf_ffi", geqrf, 0}, {"geqp3_ffi", geqp3, 0},
    {"gehrd_ffi", gehrd, 0}, {"orgqr_ffi", orgqr, 0}, {"ungqr_ffi", orgqr, 0},
    {"ormqr_ffi", ormqr, 0}, {"unmqr_ffi", ormqr, 0}, {"syevd_ffi", syevd, 0},
    {"heevd_ffi", syevd, 0}, {"eigh", eigh, 0},       {"gesdd_ffi", gesdd, 0},
    {"gesvd_ffi", gesdd, 0},
};

/* ---- the pass ---- */

static int routine_of(const struct hlo_instr *instr) {
    const char *name = instr->opcode == OP_CUSTOM_CALL ? custom_call_lapack_routine(instr) : NULL;
    for (size_t i = 0; name && i < sizeof routines / sizeof *routines; i++)
        if (strcmp(name, routines[i].name) == 0) return (int)i;
    return -1;
}

/* Matrices with elements, of f32 or c64: of 64 bits nothing would be won, a target that has those
 * has a library. */
static bool read_matrices(struct call *c, int operand) {
    const struct hlo_instr *instr = c->instr;
    const struct shape *a = operand < instr->noperands ? instr->operands[operand]->shape : NULL;
    if (!a || !shape_is_array(a) || a->rank < 2 || shape_is_dynamic(a) || a->count == 0 ||
        a->count > INT32_MAX || (a->type != TYPE_F32 && a->type != TYPE_C64))
        return false;
    for (int i = 0; i < instr->noperands; i++)
        if (!shape_is_array(instr->operands[i]->shape)) return false;
    c->rows = a->dims[a->rank - 2];
    c->columns = a->dims[a->rank - 1];
    c->batch = a->count / c->rows / c->columns;
    c->least = c->rows < c->columns ? c->rows : c->columns;
    c->is_complex = a->type == TYPE_C64;
    return true;
}

static bool expand(struct hlo_instr *instr, int routine, struct pass_context *context) {
    struct call c = {.instr = instr, .arena = arena_new()};
    bool ok = read_matrices(&c, routines[routine].matrix);
    const char *text = ok ? routines[routine].words(&c) : NULL;
    ok = text && pass_may_rewrite(context);
    if (ok) {
        type_words(&c);
        shape_words(&c);
        text = template_fill(c.arena, text, c.words, c.nwords);
        ok = template_replace(instr, text, 0, NULL, context->diag);
    }
    arena_free(c.arena);
    return ok;
}

bool lapack_expander_run(struct pass_context *context, struct hlo_module *module) {
    bool changed = false;
    FOR_EACH_COMPUTATION(computation, module) {
        FOR_EACH_INSTR(instr, computation) {
            int routine = routine_of(instr);
            if (routine >= 0) changed |= expand(instr, routine, context);
        }
    }
    return changed;
}
