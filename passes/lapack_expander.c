/* LAPACK's routines, as JAX calls them on CPUs, in HLO: for targets that have no library. The texts
 * are in lapack_templates.h; this file says what their words stand for. */
#include <string.h>

#include "ir/custom_call.h"
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
        {"conj", "%", "complex(real(%), negate(imag(%)))"},
        {"size", "abs(%)", "add(abs(real(%)), abs(imag(%)))"},
        {"extent", "abs(%)", "maximum(abs(real(%)), abs(imag(%)))"},
        {"square", "multiply(%, %)", "add(multiply(real(%), real(%)), multiply(imag(%), imag(%)))"},
        {"withim", "%", "add(%, abs(imag(alpha)))"},
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
    flag(c, "lower", custom_call_letter(c->instr, "uplo", 'L') == 'L');
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

static const struct {
    const char *name;
    describe *words;
} routines[] = {
    {"potrf_ffi", potrf},
    {"trsm_ffi", trsm},
    {"getrf_ffi", getrf},
};

/* ---- the pass ---- */

static describe *routine_of(const struct hlo_instr *instr) {
    const char *target =
        instr->opcode == OP_CUSTOM_CALL ? instr_text(instr, ATTR_CUSTOM_CALL_TARGET) : NULL;
    if (!target || strncmp(target, "lapack_", 7) || strlen(target) < 9) return NULL;
    for (size_t i = 0; i < sizeof routines / sizeof *routines; i++)
        if (strcmp(target + 8, routines[i].name) == 0) return routines[i].words;
    return NULL;
}

/* Matrices with elements, of f32 or c64: of 64 bits nothing would be won, a target that has those
 * has a library. */
static bool read_matrices(struct call *c) {
    const struct hlo_instr *instr = c->instr;
    const struct shape *a = instr->noperands ? instr->operands[0]->shape : NULL;
    if (!a || !shape_is_array(a) || a->rank < 2 || shape_is_dynamic(a) || a->count == 0 ||
        a->count > INT32_MAX || (a->type != TYPE_F32 && a->type != TYPE_C64))
        return false;
    for (int i = 1; i < instr->noperands; i++)
        if (!shape_is_array(instr->operands[i]->shape)) return false;
    c->rows = a->dims[a->rank - 2];
    c->columns = a->dims[a->rank - 1];
    c->batch = a->count / c->rows / c->columns;
    c->least = c->rows < c->columns ? c->rows : c->columns;
    c->is_complex = a->type == TYPE_C64;
    return true;
}

static bool expand(struct hlo_instr *instr, describe *describe, struct pass_context *context) {
    struct hlo_module *module = instr->parent->module;
    struct call c = {.instr = instr, .arena = arena_new()};
    struct hlo_computation *body = NULL;
    const char *text = read_matrices(&c) ? describe(&c) : NULL;
    if (text && pass_may_rewrite(context)) {
        type_words(&c);
        shape_words(&c);
        text = template_fill(c.arena, text, c.words, c.nwords);
        body = template_import(module, text, instr, context->diag);
    }
    arena_free(c.arena);
    if (!body) return false;
    struct hlo_instr *call = instr_new(instr->parent, instr, OP_CALL, instr->shape, NULL,
                                       instr->noperands, instr->operands);
    instr_set_called(call, 1, &body);
    call->metadata = instr->metadata;
    call->loc = instr->loc;
    instr_replace_uses(instr, call);
    instr_remove(instr);
    return true;
}

bool lapack_expander_run(struct pass_context *context, struct hlo_module *module) {
    bool changed = false;
    FOR_EACH_COMPUTATION(computation, module) {
        FOR_EACH_INSTR(instr, computation) {
            describe *describe = routine_of(instr);
            if (describe) changed |= expand(instr, describe, context);
        }
    }
    return changed;
}
