/* sort and topk: the runtime moves elements, the program brings the order. A comparator becomes a
 * function of two positions. Where it compares one and the same expression of either side
 * (numbers, JAX's floats with -0 = +0 and NaN last), a second function computes that as a key, and
 * the runtime sorts by digits. */
#include <string.h>

#include "backend/cpu/debug_info.h"
#include "backend/cpu/emit.h"
#include "backend/cpu/library.h"
#include "ir/custom_call.h"
#include "passes/util.h"

/* ---- comparators that have keys ---- */

enum { MOST_VISITS = 64, MOST_OPERANDS = 60 };

/* What sides the two expressions are of: 0 where parameters 2 j stand on the left, 1 where they
 * stand on the right. */
struct mirror {
    int side; /* -1: not known yet */
    int visits;
};

static bool same_constant(const struct hlo_instr *a, const struct hlo_instr *b) {
    return a->literal && b->literal && literal_equal(a->literal, b->literal);
}

/* Whether b is a with the parameters of the other side. */
static bool mirrored(struct mirror *m, const struct hlo_instr *a, const struct hlo_instr *b) {
    if (++m->visits > MOST_VISITS || a->opcode != b->opcode || a->shape->type != b->shape->type)
        return false;
    if (a->opcode == OP_PARAMETER) {
        int side = (int)(a->parameter % 2);
        if (m->side < 0) m->side = side;
        return side == m->side && b->parameter == (a->parameter ^ 1);
    }
    if (a->opcode == OP_CONSTANT) return a == b || same_constant(a, b);
    if (!(opcode_info(a->opcode)->flags & OP_FLAG_ELEMENTWISE) || !instr_same_but_operands(a, b))
        return false;
    for (int i = 0; i < a->noperands; i++)
        if (!mirrored(m, a->operands[i], b->operands[i])) return false;
    return true;
}

/* The order that a comparator has: by an expression of the left side (or of the right one). */
struct key {
    const struct hlo_instr *value; /* NULL: no keys */
    int side;                      /* of value's parameters: 2 j + side */
    bool descending, total;
    enum element_type type;
};

static struct key find_key(const struct hlo_instr *sort) {
    struct key key = {0};
    const struct hlo_instr *root = sort->called[0]->root;
    struct mirror m = {.side = -1};
    if (root->opcode != OP_COMPARE || !mirrored(&m, root->operands[0], root->operands[1]) ||
        m.side < 0)
        return key;
    int64_t direction = instr_int(root, ATTR_DIRECTION, 0);
    if (direction != ENUM_DIRECTION_LT && direction != ENUM_DIRECTION_GT) return key;
    key.type = root->operands[0]->shape->type;
    if (element_type_is_complex(key.type)) return key;
    key.total = instr_int(root, ATTR_COMPARE_TYPE, 0) == ENUM_COMPARE_TYPE_TOTALORDER;
    key.value = root->operands[0];
    key.side = m.side;
    key.descending = (direction == ENUM_DIRECTION_GT) != (m.side == 1);
    return key;
}

static int key_bits(enum element_type type) {
    if (type == TYPE_F64) return 64;
    if (element_type_is_float(type)) return 32;
    return 8 * element_type_size(type);
}

int cpu_sort_key_bits(const struct hlo_instr *instr) {
    struct key key = find_key(instr);
    return key.value ? key_bits(key.type) : 0;
}

bool cpu_sort_call(const struct hlo_instr *instr, struct cpu_library_call *call) {
    const struct shape *shape = instr->operands[0]->shape;
    struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
    int dim = dims.count ? (int)dims.v[0] : shape->rank - 1, n = instr->noperands;
    const char *why;
    if (n > MOST_OPERANDS || instr->ncalled != 1 || instr->called[0]->nparameters != 2 * n ||
        !gen_is_scalar_computation(instr->called[0], &why))
        return false;
    int64_t length = shape->rank ? shape->dims[dim] : 1, inner = 1;
    for (int d = dim + 1; d < shape->rank; d++)
        inner *= shape->dims[d];
    call->name = "hlocc_rt_sort";
    call->units = length ? shape->count / length : 0;
    call->count = SORT_SIZES + n;
    call->config[SORT_LENGTH] = length;
    call->config[SORT_INNER] = inner ? inner : 1;
    call->config[SORT_OPERANDS] = n;
    call->config[SORT_KEY_BITS] = cpu_sort_key_bits(instr);
    for (int j = 0; j < n; j++)
        call->config[SORT_SIZES + j] = element_type_size(instr->operands[j]->shape->type);
    call->scratch = hlocc_rt_sort_scratch(call->config);
    return true;
}

bool cpu_topk_call(const struct hlo_instr *instr, struct cpu_library_call *call) {
    const struct shape *in = instr->operands[0]->shape, *out = instr->shape;
    if (!shape_is_tuple(out) || out->ntuple != 2 || in->rank < 1) return false;
    if (element_type_is_complex(in->type)) return false;
    call->name = "hlocc_rt_topk";
    call->count = TOPK_NUMBERS;
    call->config[TOPK_LENGTH] = in->dims[in->rank - 1];
    call->config[TOPK_COUNT] = out->tuple[0]->dims[in->rank - 1];
    call->config[TOPK_SIZE] = element_type_size(in->type);
    call->config[TOPK_INDEX_SIZE] = element_type_size(out->tuple[1]->type);
    call->units = in->dims[in->rank - 1] ? in->count / in->dims[in->rank - 1] : 0;
    call->scratch = hlocc_rt_topk_scratch(call->config);
    return true;
}

/* ---- functions ---- */

struct outer {
    LLVMValueRef function;
    LLVMBasicBlockRef block;
    uint64_t frame;
    struct debug_place place;
};

/* Starts a function of an instruction in the middle of another one. */
static struct outer begin_function(struct cpu_gen *g, const struct hlo_instr *instr,
                                   const char *name, LLVMTypeRef type) {
    struct outer outer = {
        .function = g->function,
        .block = LLVMGetInsertBlock(g->b.builder),
        .frame = gen_frame_enter(g),
    };
    scope_push(&g->seen);
    g->function =
        LLVMAddFunction(g->b.module, arena_printf(g->arena, "%s.%s", instr->name, name), type);
    LLVMSetLinkage(g->function, LLVMInternalLinkage);
    cpu_mark_function(&g->b, g->function);
    outer.place = debug_function(g, g->function, instr);
    LLVMPositionBuilderAtEnd(g->b.builder,
                             LLVMAppendBasicBlockInContext(g->b.context, g->function, "entry"));
    return outer;
}

/* A C bool comes back as a zero-extended byte. */
static LLVMValueRef end_function(struct cpu_gen *g, struct outer outer, LLVMValueRef truth) {
    LLVMTypeRef i8 = LLVMInt8TypeInContext(g->b.context);
    LLVMValueRef function = g->function;
    unsigned kind = LLVMGetEnumAttributeKindForName("zeroext", 7);
    LLVMBuildRet(g->b.builder, LLVMBuildZExt(g->b.builder, truth, i8, ""));
    LLVMAddAttributeAtIndex(function, LLVMAttributeReturnIndex,
                            LLVMCreateEnumAttribute(g->b.context, kind, 0));
    g->function = outer.function;
    scope_pop(&g->seen);
    gen_frame_leave(g, outer.frame);
    LLVMPositionBuilderAtEnd(g->b.builder, outer.block);
    debug_restore(g, outer.place);
    return function;
}

/* Element `at` of row j. */
static LLVMValueRef row_element(struct cpu_gen *g, const struct hlo_instr *instr, LLVMValueRef rows,
                                int j, LLVMValueRef at) {
    LLVMBuilderRef b = g->b.builder;
    enum element_type type = instr->operands[j]->shape->type;
    LLVMTypeRef pointer = LLVMPointerTypeInContext(g->b.context, 0);
    LLVMValueRef number = gen_i64(g, j);
    LLVMValueRef row =
        LLVMBuildLoad2(b, pointer, LLVMBuildInBoundsGEP2(b, pointer, rows, &number, 1, ""), "");
    return cpu_load(&g->b, type,
                    LLVMBuildInBoundsGEP2(b, cpu_memory_type(&g->b, type), row, &at, 1, ""), NULL);
}

LLVMValueRef gen_sort_comparator(struct cpu_gen *g, const struct hlo_instr *instr) {
    LLVMTypeRef pointer = LLVMPointerTypeInContext(g->b.context, 0);
    LLVMTypeRef i64 = LLVMInt64TypeInContext(g->b.context);
    LLVMTypeRef type = LLVMFunctionType(LLVMInt8TypeInContext(g->b.context),
                                        (LLVMTypeRef[]){pointer, i64, i64}, 3, false);
    struct outer outer = begin_function(g, instr, "before", type);
    LLVMValueRef args[2 * MOST_OPERANDS], out[1];
    for (int j = 0; j < instr->noperands; j++)
        for (unsigned side = 0; side < 2; side++)
            args[2 * j + (int)side] = row_element(g, instr, LLVMGetParam(g->function, 0), j,
                                                  LLVMGetParam(g->function, 1 + side));
    gen_scalar_call(g, instr->called[0], args, out);
    return end_function(g, outer, out[0]);
}

/* The bits of a float, as a number in the order of the floats. Where the order is not total,
 * subnormals and zeros are equal, and *odd gets whether the value is NaN. */
static LLVMValueRef float_key(struct cpu_gen *g, LLVMValueRef x, enum element_type type, bool total,
                              LLVMValueRef *odd) {
    struct cpu_builder *b = &g->b;
    LLVMValueRef bits = bits_of(b, cpu_widen(b, x, type));
    int width = type == TYPE_F64 ? 64 : 32;
    uint64_t sign = 1ull << (width - 1), least = width == 64 ? 1ull << 52 : 1ull << 23;
    uint64_t infinity = width == 64 ? 0x7ff0000000000000 : 0x7f800000;
    if (!total) {
        LLVMValueRef size = i_andk(b, bits, sign - 1);
        *odd = i_cmpk(b, LLVMIntUGT, size, infinity);
        bits = select_of(b, i_cmpk(b, LLVMIntULT, size, least), ik(bits, 0), bits);
    }
    LLVMValueRef negative = i_ashrk(b, bits, (uint64_t)width - 1);
    return i_xor(b, bits, i_or(b, negative, ik(bits, sign)));
}

static LLVMValueRef element_key(struct cpu_gen *g, LLVMValueRef x, const struct key *key,
                                LLVMValueRef *odd) {
    struct cpu_builder *b = &g->b;
    int bits = key_bits(key->type);
    *odd = LLVMConstInt(LLVMInt1TypeInContext(b->context), 0, false);
    if (element_type_is_float(key->type)) {
        x = float_key(g, x, key->type, key->total, odd);
    } else {
        LLVMTypeRef type = int_type(b, bits);
        x = key->type == TYPE_PRED ? LLVMBuildZExt(b->builder, x, type, "") : x;
        if (element_type_is_signed(key->type)) x = i_xork(b, x, 1ull << (bits - 1));
    }
    if (key->descending) x = LLVMBuildNot(b->builder, x, "");
    return LLVMBuildZExt(b->builder, x, int_type(b, 64), "");
}

/* The value of the key's expression for element `at` of the rows. */
static LLVMValueRef key_value(struct cpu_gen *g, const struct hlo_instr *sort,
                              const struct key *key, LLVMValueRef at) {
    LLVMValueRef rows = LLVMGetParam(g->function, 0);
    if (sort->opcode == OP_TOPK) return row_element(g, sort, rows, 0, at);
    const struct hlo_computation *computation = sort->called[0];
    for (int j = 0; j < sort->noperands; j++)
        gen_bind_element(g, computation->parameters[2 * j + key->side], NULL,
                         row_element(g, sort, rows, j, at));
    return gen_element(g, key->value, NULL);
}

LLVMValueRef gen_sort_keys(struct cpu_gen *g, const struct hlo_instr *instr) {
    LLVMTypeRef pointer = LLVMPointerTypeInContext(g->b.context, 0);
    LLVMTypeRef i64 = LLVMInt64TypeInContext(g->b.context);
    LLVMBuilderRef b = g->b.builder;
    struct key key = {.total = true, .type = instr->operands[0]->shape->type};
    if (instr->opcode == OP_SORT)
        key = find_key(instr);
    else
        key.descending = topk_is_largest(instr);
    if (instr->opcode == OP_SORT && !key.value) return LLVMConstNull(pointer);
    LLVMTypeRef type = LLVMFunctionType(LLVMInt8TypeInContext(g->b.context),
                                        (LLVMTypeRef[]){pointer, i64, pointer}, 3, false);
    struct outer outer = begin_function(g, instr, "keys", type);
    LLVMTypeRef i1 = LLVMInt1TypeInContext(g->b.context);
    LLVMBuildBr(b, LLVMAppendBasicBlockInContext(g->b.context, g->function, "start"));
    LLVMPositionBuilderAtEnd(b, LLVMGetLastBasicBlock(g->function));
    LLVMValueRef slot = gen_slot(g, TYPE_PRED), odd;
    LLVMBuildStore(b, LLVMConstInt(i1, 0, false), slot);
    struct cpu_loop loop = gen_loop_begin(g, LLVMGetParam(g->function, 1));
    LLVMValueRef value = element_key(g, key_value(g, instr, &key, loop.i), &key, &odd);
    LLVMBuildStore(b, value,
                   LLVMBuildInBoundsGEP2(b, i64, LLVMGetParam(g->function, 2), &loop.i, 1, ""));
    LLVMBuildStore(b, LLVMBuildOr(b, LLVMBuildLoad2(b, i1, slot, ""), odd, ""), slot);
    gen_loop_end(g, &loop);
    LLVMValueRef any = LLVMBuildLoad2(b, i1, slot, "");
    return end_function(g, outer, LLVMBuildNot(b, any, ""));
}
