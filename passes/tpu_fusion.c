/* Fusion for the TPU. Its kernels go over tiles of 8 x 128 elements, block by block, from HBM
 * through VMEM: what is computed at the place where it is read costs little next to a value's way
 * through memory, as long as no element has to change its place within a tile. */
#include "passes/fusion_group.h"
#include "passes/util.h"

enum { SUBLANES = 8, LANES = 128 };
static const double MOST_SPREAD_BYTES = 1 << 20; /* of an array that a kernel holds as a whole */
static const double MOST_UNIT_BYTES = 10 << 20;  /* of the blocks of a kernel, each twice */

static double round_up(int64_t size, int64_t to) {
    return (double)((size + to - 1) / to * to);
}

/* Bytes in tiles, about: 8 rows of 128 elements of 32 bits. */
static double padded_bytes(const struct shape *shape) {
    double bytes = 4;
    for (int d = 0; d < shape->rank; d++)
        bytes *= d == shape->rank - 1   ? round_up(shape->dims[d], LANES)
                 : d == shape->rank - 2 ? round_up(shape->dims[d], SUBLANES)
                                        : (double)shape->dims[d];
    if (shape->rank == 1) bytes = 4 * round_up(shape->dims[0], LANES);
    return element_type_size(shape->type) == 8 ? 2 * bytes : bytes;
}

/* Elements stay in their place of the tile, or one row, column or element of a small array goes to
 * many. */
static bool tpu_composes(const struct hlo_instr *instr) {
    if (!instr_is_composed(instr)) return false;
    switch (instr->opcode) {
    case OP_IOTA:
    case OP_COPY: return true;
    case OP_BROADCAST: return padded_bytes(instr->operands[0]->shape) <= MOST_SPREAD_BYTES;
    default: return opcode_info(instr->opcode)->flags & OP_FLAG_ELEMENTWISE;
    }
}

static bool is_outside(const struct hlo_instr *instr, int count, struct hlo_instr *const *members) {
    for (int i = 0; i < count; i++)
        if (members[i] == instr) return false;
    return true;
}

/* Operands from outside that have the dims of the values that are computed. */
static int count_streams(const struct shape *shape, int count, struct hlo_instr *const *members) {
    int streams = 0;
    for (int i = 0; i < count; i++)
        for (int k = 0; k < members[i]->noperands; k++)
            if (shape_same_dims(members[i]->operands[k]->shape, shape) &&
                is_outside(members[i]->operands[k], count, members))
                streams++;
    return streams;
}

/* Bytes of an array that are there while the reduces of one row, or of 8 of them, are computed. */
static double unit_bytes(const struct hlo_instr *reduce) {
    const struct shape *shape = reduce->operands[0]->shape;
    struct int_list dims = instr_ints(reduce, ATTR_DIMENSIONS);
    double bytes = 4;
    for (int d = 0; d < shape->rank; d++) {
        bool folded = int_list_has(dims, d);
        if (d == shape->rank - 1)
            bytes *= round_up(folded ? shape->dims[d] : 1, LANES);
        else if (d == shape->rank - 2)
            bytes *= round_up(folded ? shape->dims[d] : 1, SUBLANES);
        else if (folded)
            bytes *= (double)shape->dims[d];
    }
    return bytes;
}

static bool folds(const struct hlo_instr *reduce) {
    enum hlo_opcode operation = reducer_operation(reduce->called[0]);
    return operation == OP_ADD || operation == OP_MULTIPLY ||
           reducer_only_chooses(reduce->called[0]);
}

/* Values per row have the dims of the reduces' results, and those per element the dims of their
 * operands: nothing is reshaped on the way. */
static bool takes_reduces(const struct fusion_info *info, int count,
                          struct hlo_instr *const *members) {
    const struct shape *full = info->hero->operands[0]->shape;
    const struct shape *row = shape_leaf(info->hero->shape, 0);
    for (int i = 0; i < count; i++) {
        const struct hlo_instr *member = members[i];
        enum fusion_level level = fusion_level_of(info, member);
        if (member->opcode == OP_REDUCE) {
            if (!folds(member) || !shape_same_dims(member->operands[0]->shape, full)) return false;
            if (!shape_same_dims(shape_leaf(member->shape, 0), row)) return false;
        } else if (level == FUSION_LEVEL_ROW) {
            if (!shape_same_dims(member->shape, row)) return false;
        } else if (level == FUSION_LEVEL_FULL) {
            if (!shape_same_dims(member->shape, full)) return false;
        }
    }
    for (int i = 0; i < info->noutputs; i++)
        if (fusion_level_of(info, info->outputs[i]) == FUSION_LEVEL_FREE &&
            !shape_same_dims(info->outputs[i]->shape, full))
            return false;
    if (info->shape != FUSION_SHAPE_ROWS) return true;
    int streams = count_streams(full, count, members) + info->noutputs;
    return 2 * streams * unit_bytes(info->hero) <= MOST_UNIT_BYTES;
}

static bool lists_range(struct int_list dims, int first, int end) {
    if (dims.count != end - first) return false;
    for (int i = 0; i < dims.count; i++)
        if (dims.v[i] != first + i) return false;
    return true;
}

/* Batches come first, and then either k is minor or all but the minor dimension is k. */
static bool is_matrix(const struct shape *shape, struct int_list batch, struct int_list sum,
                      bool one_free) {
    int rank = shape->rank, free = rank - batch.count - sum.count;
    if (!lists_range(batch, 0, batch.count) ||
        (shape->type != TYPE_F32 && shape->type != TYPE_BF16))
        return false;
    if (sum.count == 1 && sum.v[0] == rank - 1) return !one_free || free == 1;
    return free == 1 && lists_range(sum, batch.count, rank - 1);
}

static bool is_image(int batch, const int *spatial, int n, int feature) {
    bool ordered = batch == 0 && feature == n + 1;
    for (int s = 0; s < n; s++)
        ordered &= spatial[s] == 1 + s;
    return ordered;
}

/* Images of f32 with their features minor, of no more columns and places of the window than one
 * loop takes. */
static bool streams_convolution(const struct hlo_instr *conv) {
    enum { MOST_COLUMNS = 192, MOST_PLACES = 512 };
    const struct dim_labels *labels = instr_attr(conv, ATTR_DIM_LABELS)->dim_labels;
    const struct window *window = instr_window(conv);
    int n = labels->spatial;
    int64_t places = (conv->operands[0]->shape->dims[labels->input_feature] + LANES - 1) / LANES;
    if (n < 1 || n > 2 || instr_int(conv, ATTR_FEATURE_GROUP_COUNT, 1) > 1 ||
        instr_int(conv, ATTR_BATCH_GROUP_COUNT, 1) > 1)
        return false;
    for (int s = 0; s < n; s++) {
        if (window->v[s].lhs_dilate != 1 || window->v[s].pad_low < 0) return false;
        if (labels->kernel_spatial[s] != s) return false;
        places *= window->v[s].size;
    }
    return conv->operands[0]->shape->type == TYPE_F32 &&
           conv->operands[1]->shape->type == TYPE_F32 &&
           is_image(labels->input_batch, labels->input_spatial, n, labels->input_feature) &&
           is_image(labels->output_batch, labels->output_spatial, n, labels->output_feature) &&
           conv->shape->dims[n] <= MOST_COLUMNS && places <= MOST_PLACES;
}

/* Dots of matrices and convolutions stream from HBM to HBM, block by block of the result, whatever
 * their size. */
static bool streams_product(const struct hlo_instr *product) {
    if (product->opcode == OP_CONVOLUTION) return streams_convolution(product);
    if (product->opcode != OP_DOT) return false;
    const struct shape *lhs = product->operands[0]->shape, *rhs = product->operands[1]->shape;
    return lhs->type == rhs->type && element_type_is_float(product->shape->type) &&
           is_matrix(lhs, instr_ints(product, ATTR_LHS_BATCH_DIMS),
                     instr_ints(product, ATTR_LHS_CONTRACTING_DIMS), false) &&
           is_matrix(rhs, instr_ints(product, ATTR_RHS_BATCH_DIMS),
                     instr_ints(product, ATTR_RHS_CONTRACTING_DIMS), true);
}

/* Operands and results fit in VMEM, with `others` arrays of the results' size. */
static bool has_room(const struct hlo_instr *product, int others) {
    double bytes = padded_bytes(product->shape) * (2 + others);
    for (int i = 0; i < product->noperands; i++)
        bytes += padded_bytes(product->operands[i]->shape);
    return bytes <= MOST_UNIT_BYTES;
}

static bool tpu_has_epilogue(const struct hlo_instr *product) {
    return instr_is_product(product) && (streams_product(product) || has_room(product, 1));
}

/* The product's operands come from outside, and what goes along with its results, block by block,
 * has elements of 16 bits or more. */
static bool streams_with(const struct fusion_info *info, int count,
                         struct hlo_instr *const *members) {
    enum { MOST_STREAMS = 8 };
    const struct shape *full = info->hero->shape;
    if (!streams_product(info->hero)) return false;
    for (int i = 0; i < info->hero->noperands; i++)
        if (!is_outside(info->hero->operands[i], count, members)) return false;
    for (int i = 0; i < info->noutputs; i++)
        if (element_type_size(info->outputs[i]->shape->type) < 2) return false;
    return count_streams(full, count, members) + info->noutputs <= MOST_STREAMS;
}

/* All that happens to the results happens at their own places. */
static bool takes_product(const struct fusion_info *info, int count,
                          struct hlo_instr *const *members) {
    const struct shape *full = info->hero->shape;
    if (!tpu_has_epilogue(info->hero)) return false;
    for (int i = 0; i < count; i++)
        if (fusion_level_of(info, members[i]) == FUSION_LEVEL_FULL &&
            !shape_same_dims(members[i]->shape, full))
            return false;
    return streams_with(info, count, members) ||
           has_room(info->hero, count_streams(full, count, members) + info->noutputs);
}

static bool tpu_takes(const struct fusion_info *info, int count, struct hlo_instr *const *members) {
    switch (info->shape) {
    case FUSION_SHAPE_LOOP: return true;
    case FUSION_SHAPE_REDUCE:
    case FUSION_SHAPE_ROWS: return takes_reduces(info, count, members);
    case FUSION_SHAPE_PRODUCT: return takes_product(info, count, members);
    default: return false;
    }
}

/* A kernel costs about as much as 1,500 cycles of HBM's bandwidth: 500 bytes each on v2. An
 * operation takes a cycle for 1,024 elements, loads of as many four bytes 8. */
static const struct fusion_policy tpu_policy = {
    .kernel_cost = 190000,
    .operation_cost = 0.15,
    .most_operands = 24,
    .most_outputs = 8,
    .composes = tpu_composes,
    .takes = tpu_takes,
    .has_epilogue = tpu_has_epilogue,
};

bool tpu_fusion_run(struct pass_context *context, struct hlo_module *module) {
    return fusion_run_with(context, module, &tpu_policy);
}
