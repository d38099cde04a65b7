/* Shapes of operations that talk to other devices or to the host. */
#include <stdlib.h>

#include "ir/infer_internal.h"

/* ---- which devices take part ---- */

static int by_value(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Element `part` of each list (all of them for part -1), sorted; arena memory. */
static int64_t *sorted_ids(const struct hlo_instr *instr, const struct int_lists *lists, int part,
                           int *count) {
    int total = 0, n = 0;
    for (int i = 0; i < lists->count; i++)
        total += lists->v[i].count;
    int64_t *ids =
        arena_array(instr->parent->module->arena, total ? (size_t)total : 1, sizeof *ids);
    for (int i = 0; i < lists->count; i++)
        for (int j = 0; j < lists->v[i].count; j++)
            if (part < 0 || j == part) ids[n++] = lists->v[i].v[j];
    qsort(ids, (size_t)n, sizeof *ids, by_value);
    *count = n;
    return ids;
}

/* Every device from 0 on in one group, each once; with `uniform` the groups are of one size. */
static bool groups_good(struct hlo_instr *instr, struct diag *diag, bool uniform) {
    const struct hlo_attr *attr = instr_attr(instr, ATTR_REPLICA_GROUPS);
    if (!attr || attr->groups->is_iota || attr->groups->mesh) return true;
    const struct int_lists *lists = &attr->groups->lists;
    for (int i = 0; i < lists->count; i++) {
        if (lists->v[i].count && (!uniform || lists->v[i].count == lists->v[0].count)) continue;
        if (lists->count == 1) return true; /* {{}}: all, as {} */
        diag_instr_error(diag, instr, "replica group %d has %d devices, %s expected", i,
                         lists->v[i].count, uniform ? "as many as the first" : "1 or more");
        return false;
    }
    int count;
    const int64_t *ids = sorted_ids(instr, lists, -1, &count);
    for (int i = 0; i < count; i++) {
        if (ids[i] == i) continue;
        diag_instr_error(diag, instr,
                         "replica_groups name device %lld where %d is next, each device from 0 to "
                         "%d once expected",
                         (long long)ids[i], i, count - 1);
        return false;
    }
    return true;
}

/* Devices in each group; 0 where the text does not say. */
static int64_t group_size(const struct hlo_instr *instr) {
    const struct hlo_attr *attr = instr_attr(instr, ATTR_REPLICA_GROUPS);
    if (!attr || attr->groups->mesh) return 0;
    if (attr->groups->is_iota)
        return attr->groups->iota.ndims ? attr->groups->iota.dims[attr->groups->iota.ndims - 1] : 0;
    return attr->groups->lists.count ? attr->groups->lists.v[0].count : 0;
}

static bool pairs_good(struct hlo_instr *instr, struct diag *diag) {
    static const char *const words[] = {"source", "target"};
    const struct hlo_attr *attr = instr_attr(instr, ATTR_SOURCE_TARGET_PAIRS);
    for (int i = 0; attr && i < attr->int_lists->count; i++) {
        if (attr->int_lists->v[i].count == 2) continue;
        diag_instr_error(diag, instr, "pair %d of source_target_pairs has %d devices, 2 expected",
                         i, attr->int_lists->v[i].count);
        return false;
    }
    for (int part = 0; attr && part < 2; part++) {
        int count;
        const int64_t *ids = sorted_ids(instr, attr->int_lists, part, &count);
        for (int i = 0; i < count; i++) {
            if (ids[i] >= 0 && (i == 0 || ids[i] != ids[i - 1])) continue;
            diag_instr_error(diag, instr,
                             "source_target_pairs have %s %lld%s, each once and from 0 expected",
                             words[part], (long long)ids[i], ids[i] < 0 ? "" : " twice");
            return false;
        }
    }
    return true;
}

/* ---- collectives ---- */

/* One array as it is; more as a tuple. */
static const struct shape *operands_or_tuple(struct hlo_instr *instr, struct diag *diag) {
    for (int i = 0; i < instr->noperands; i++)
        if (!infer_array_operand(instr, diag, i)) return NULL;
    if (instr->noperands == 1) {
        /* A tuple of one is written by some programs. */
        const struct shape *shape = infer_operand(instr, 0);
        if (instr->shape && shape_is_tuple(instr->shape))
            return infer_tuple(instr, diag, 1, &shape);
        return shape;
    }
    return infer_tuple(instr, diag, instr->noperands, infer_operand_shapes(instr, 0));
}

const struct shape *infer_all_reduce(struct hlo_instr *instr, struct diag *diag) {
    if (instr->opcode != OP_COLLECTIVE_BROADCAST && !infer_check_called(instr, diag, 0, 2, NULL))
        return NULL;
    return groups_good(instr, diag, false) ? operands_or_tuple(instr, diag) : NULL;
}

const struct shape *infer_collective_permute(struct hlo_instr *instr, struct diag *diag) {
    if (!pairs_good(instr, diag)) return NULL;
    if (instr_attr(instr, ATTR_SLICE_SIZES)) return infer_written(instr, diag);
    return operands_or_tuple(instr, diag);
}

/* (operands, results, ...) of which the operands are known. */
const struct shape *infer_collective_start(struct hlo_instr *instr, struct diag *diag) {
    const struct shape *written = infer_written(instr, diag);
    if (!written || !pairs_good(instr, diag) || !groups_good(instr, diag, true)) return NULL;
    if (instr_attr(instr, ATTR_SLICE_SIZES)) return written;
    const struct shape *given = operands_or_tuple(instr, diag);
    if (!given) return NULL;
    if (shape_is_tuple(given) && given->ntuple == 1) given = given->tuple[0];
    if (!shape_is_tuple(written) || written->ntuple < 2 || !infer_same(written->tuple[0], given))
        return INFER_FAIL(instr, diag, "shape %s given, a tuple of %s and the result expected",
                          infer_text(instr, written), infer_text(instr, given));
    return written;
}

/* The output that is written into is the second operand. */
const struct shape *infer_ragged_all_to_all(struct hlo_instr *instr, struct diag *diag) {
    return groups_good(instr, diag, true) ? infer_array_operand(instr, diag, 1) : NULL;
}

/* The array leaf that the written result has for operand `index`; NULL where it is no such. */
static const struct shape *written_part(const struct hlo_instr *instr, int index) {
    const struct shape *shape = instr->shape;
    if (shape_is_array(shape)) return instr->noperands == 1 ? shape : NULL;
    if (!shape_is_tuple(shape) || shape->ntuple != instr->noperands) return NULL;
    return shape_is_array(shape->tuple[index]) ? shape->tuple[index] : NULL;
}

/* Result and operand differ in one dimension only, which the number of devices in a group (where
 * the text leaves it open, any number) multiplies or, for `divided`, divides. */
static const struct shape *scaled(struct hlo_instr *instr, struct diag *diag, bool divided) {
    struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
    int64_t devices = group_size(instr);
    if (!infer_written(instr, diag) || !groups_good(instr, diag, true)) return NULL;
    if (dims.count != 1)
        return INFER_FAIL(instr, diag, "%d dimensions given, 1 expected", dims.count);
    for (int k = 0; k < instr->noperands; k++) {
        const struct shape *from = infer_array_operand(instr, diag, k);
        const struct shape *to = written_part(instr, k);
        if (!from || !infer_check_dims(instr, diag, "dimensions", dims, from->rank)) return NULL;
        bool fits = to && to->type == from->type && to->rank == from->rank;
        for (int i = 0; fits && i < from->rank; i++) {
            int64_t small = divided ? to->dims[i] : from->dims[i];
            int64_t large = divided ? from->dims[i] : to->dims[i];
            if (i != dims.v[0])
                fits = small == large;
            else if (small == 0)
                fits = large == 0;
            else
                fits = large % small == 0 && (!devices || large / small == devices);
        }
        if (fits) continue;
        const char *by = "the size of a group";
        if (devices)
            by = arena_printf(instr->parent->module->arena, "%lld devices of a group",
                              (long long)devices);
        return INFER_FAIL(instr, diag,
                          "result %s given for operand %s, its shape with dimension %lld %s by %s "
                          "expected",
                          infer_text(instr, instr->shape), infer_text(instr, from),
                          (long long)dims.v[0], divided ? "divided" : "multiplied", by);
    }
    return instr->shape;
}

const struct shape *infer_all_gather(struct hlo_instr *instr, struct diag *diag) {
    return scaled(instr, diag, false);
}

const struct shape *infer_reduce_scatter(struct hlo_instr *instr, struct diag *diag) {
    if (!infer_check_called(instr, diag, 0, 2, NULL)) return NULL;
    return scaled(instr, diag, true);
}

const struct shape *infer_all_to_all(struct hlo_instr *instr, struct diag *diag) {
    struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
    const struct shape *first = infer_array_operand(instr, diag, 0);
    int64_t devices = group_size(instr);
    if (!first || !infer_check_dims(instr, diag, "dimensions", dims, first->rank) ||
        !groups_good(instr, diag, true))
        return NULL;
    if (devices && dims.count == 1 && first->dims[dims.v[0]] % devices)
        return INFER_FAIL(instr, diag,
                          "dimension %lld of %s is split over %lld devices, a multiple expected",
                          (long long)dims.v[0], infer_text(instr, first), (long long)devices);
    if (devices && dims.count == 0 && instr->noperands != devices)
        return INFER_FAIL(instr, diag,
                          "%d operands given for groups of %lld devices, as many "
                          "expected",
                          instr->noperands, (long long)devices);
    for (int i = 1; i < instr->noperands; i++)
        if (!infer_same(first, infer_operand(instr, i)))
            return INFER_FAIL(instr, diag,
                              "operand %d has shape %s, %s (that of operand 0) "
                              "expected",
                              i, infer_text(instr, infer_operand(instr, i)),
                              infer_text(instr, first));
    return operands_or_tuple(instr, diag);
}

/* ---- the host ---- */

static bool token_operand(struct hlo_instr *instr, struct diag *diag, int index) {
    if (shape_is_token(infer_operand(instr, index))) return true;
    diag_instr_error(diag, instr, "operand %d has shape %s, token[] expected", index,
                     infer_text(instr, infer_operand(instr, index)));
    return false;
}

/* The value and a token. */
const struct shape *infer_infeed(struct hlo_instr *instr, struct diag *diag) {
    const struct shape *shape = infer_written(instr, diag);
    if (!shape || !token_operand(instr, diag, 0)) return NULL;
    if (!shape_is_tuple(shape) || shape->ntuple != 2 || !shape_is_token(shape->tuple[1]))
        return INFER_FAIL(instr, diag, "shape %s given, a tuple of the value and token[] expected",
                          infer_text(instr, shape));
    return shape;
}

const struct shape *infer_outfeed(struct hlo_instr *instr, struct diag *diag) {
    const struct hlo_attr *attr = instr_attr(instr, ATTR_OUTFEED_SHAPE);
    if (!token_operand(instr, diag, 1)) return NULL;
    if (attr && !infer_same(attr->shape, infer_operand(instr, 0)))
        return INFER_FAIL(instr, diag, "outfeed_shape=%s given, %s (operand 0) expected",
                          infer_text(instr, attr->shape),
                          infer_text(instr, infer_operand(instr, 0)));
    return shape_token(infer_table(instr));
}

/* send and recv: the value, a number and a token; send has the value as operand 0. */
const struct shape *infer_transfer(struct hlo_instr *instr, struct diag *diag) {
    bool send = instr->opcode == OP_SEND;
    const struct shape *shape = infer_written(instr, diag);
    if (!shape || !token_operand(instr, diag, send) || !pairs_good(instr, diag)) return NULL;
    bool fits = shape_is_tuple(shape) && shape->ntuple == 3 && shape_is_scalar(shape->tuple[1]) &&
                shape->tuple[1]->type == TYPE_U32 && shape_is_token(shape->tuple[2]) &&
                (!send || infer_same(shape->tuple[0], infer_operand(instr, 0)));
    if (!fits)
        return INFER_FAIL(instr, diag, "shape %s given, (%s, u32[], token[]) expected",
                          infer_text(instr, shape),
                          send ? infer_text(instr, infer_operand(instr, 0)) : "the value");
    return shape;
}

/* send-done gives the token, recv-done the value too. */
const struct shape *infer_transfer_done(struct hlo_instr *instr, struct diag *diag) {
    const struct shape *start = infer_operand(instr, 0);
    if (!shape_is_tuple(start) || start->ntuple != 3 || !shape_is_token(start->tuple[2]))
        return INFER_FAIL(instr, diag, "operand has shape %s, the tuple of a send or recv expected",
                          infer_text(instr, start));
    if (instr->opcode == OP_SEND_DONE) return start->tuple[2];
    const struct shape *parts[2] = {start->tuple[0], start->tuple[2]};
    return infer_tuple(instr, diag, 2, parts);
}

const struct shape *infer_add_dependency(struct hlo_instr *instr, struct diag *diag) {
    return token_operand(instr, diag, 1) ? infer_operand(instr, 0) : NULL;
}

/* The copy, what is copied, and what the device needs for itself. */
const struct shape *infer_copy_start(struct hlo_instr *instr, struct diag *diag) {
    const struct shape *shape = infer_written(instr, diag), *from = infer_operand(instr, 0);
    if (!shape) return NULL;
    if (!shape_is_tuple(shape) || shape->ntuple < 2 || !infer_same(shape->tuple[0], from) ||
        !infer_same(shape->tuple[1], from))
        return INFER_FAIL(instr, diag, "shape %s given, (%s, %s, ...) expected",
                          infer_text(instr, shape), infer_text(instr, from),
                          infer_text(instr, from));
    return shape;
}
