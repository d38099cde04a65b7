/* Custom calls that go between whole arrays and a device's part of them: what a program has before
 * it is partitioned, written by Shardy (xla.sdy.*) or by GSPMD (SPMD*). */
#include <stdlib.h>
#include <string.h>

#include "ir/eval_mesh.h"

/* How many parts each dimension has, and which of them one device holds. */
struct placement {
    int64_t parts[SHAPE_MAX_RANK], index[SHAPE_MAX_RANK];
};

/* ---- GSPMD: sharding={devices=[2,2]<=[4]} ---- */

static bool place_tiled(const struct sharding *s, int rank, int device, struct placement *out) {
    int64_t at = -1, count = 1;
    for (int i = 0; i < s->ndims; i++)
        count *= s->dims[i];
    for (int64_t i = 0; i < count && at < 0; i++)
        if ((s->ndevices ? s->devices[i] : iota_device(&s->iota, i)) == device) at = i;
    if (at < 0 || s->ndims < rank) return false;
    for (int i = s->ndims - 1; i >= 0; i--) {
        if (i < rank) out->parts[i] = s->dims[i], out->index[i] = at % s->dims[i];
        at /= s->dims[i];
    }
    return true;
}

bool sharding_place(const struct sharding *s, int rank, int device, int64_t *parts,
                    int64_t *index) {
    struct placement p;
    for (int i = 0; i < rank; i++)
        p.parts[i] = 1, p.index[i] = 0;
    bool good = !s || s->kind == SHARDING_REPLICATED || s->kind == SHARDING_EMPTY ||
                s->kind == SHARDING_MANUAL ||
                (s->kind == SHARDING_TILED && place_tiled(s, rank, device, &p));
    memcpy(parts, p.parts, (size_t)rank * sizeof *parts);
    memcpy(index, p.index, (size_t)rank * sizeof *index);
    return good;
}

/* ---- Shardy: <@mesh, [{"x"}, {}]> with the mesh in the module's attributes ---- */

enum { MAX_AXES = 16, MAX_AXIS_NAME = 64 };

struct axes {
    int count;
    char names[MAX_AXES][MAX_AXIS_NAME];
    int64_t sizes[MAX_AXES];
};

/* Attribute text with its escaped quotes plain; to be freed. */
static char *plain_text(const char *text) {
    char *plain = strdup(text), *to = plain;
    for (const char *p = text; plain && *p; p++)
        if (*p != '\\') *to++ = *p;
    if (plain) *to = 0;
    return plain;
}

/* A quoted name at *p, which moves behind it. */
static bool quoted_name(const char **p, char *name) {
    const char *start = *p + 1, *end = **p == '"' ? strchr(start, '"') : NULL;
    if (!end || end - start >= MAX_AXIS_NAME) return false;
    memcpy(name, start, (size_t)(end - start));
    name[end - start] = 0;
    *p = end + 1;
    return true;
}

/* `NAME = #sdy.mesh<["x"=2, "y"=4]>` */
static bool read_mesh(const struct hlo_module *module, const char *name, size_t length,
                      struct axes *axes) {
    axes->count = 0;
    for (int i = 0; i < module->nattrs; i++) {
        char *text = plain_text(module->attrs[i].text);
        const char *p = text;
        while ((p = p ? strstr(p, " = #sdy.mesh<[") : NULL)) {
            bool same = (size_t)(p - text) >= length && strncmp(p - length, name, length) == 0;
            p += strlen(" = #sdy.mesh<[");
            while (same && axes->count < MAX_AXES && quoted_name(&p, axes->names[axes->count])) {
                char *end;
                axes->sizes[axes->count++] = *p == '=' ? strtoll(p + 1, &end, 10) : 0;
                if (*p != '=' || axes->sizes[axes->count - 1] < 1) axes->count = 0;
                if (!axes->count) break;
                p = end + strspn(end, ", ");
            }
            if (same) break;
        }
        free(text);
        if (axes->count) return true;
    }
    return false;
}

static int axis_number(const struct axes *axes, const char *name) {
    for (int i = 0; i < axes->count; i++)
        if (strcmp(axes->names[i], name) == 0) return i;
    return -1;
}

/* Where the device stands along an axis: the first axis is the slowest. */
static int64_t coordinate(const struct axes *axes, int axis, int64_t device) {
    for (int i = axes->count - 1; i > axis; i--)
        device /= axes->sizes[i];
    return device % axes->sizes[axis];
}

/* The dimensions of one `[{"x", "y"}, {}]` at p; only manual axes split an array here. */
static bool read_dims(const char *p, const struct axes *axes, const char *manual, int rank,
                      int device, struct placement *out) {
    for (int dim = 0; dim < rank; dim++) {
        out->parts[dim] = 1;
        out->index[dim] = 0;
        p = strchr(p, '{');
        if (!p) return false;
        for (p++; *p && *p != '}';) {
            char name[MAX_AXIS_NAME], quoted[MAX_AXIS_NAME + 2];
            if (*p != '"') {
                p++;
                continue;
            }
            if (!quoted_name(&p, name) || *p == ':') return false; /* no parts of axes */
            int axis = axis_number(axes, name);
            if (axis < 0) return false;
            strcat(strcat(strcpy(quoted, "\""), name), "\"");
            if (manual && !strstr(manual, quoted)) continue;
            out->parts[dim] *= axes->sizes[axis];
            out->index[dim] = out->index[dim] * axes->sizes[axis] + coordinate(axes, axis, device);
        }
    }
    return true;
}

/* Value k of the list that the attribute holds under `key`. */
static bool place_shardy(const struct hlo_instr *instr, const char *key, int k, int rank,
                         int device, struct placement *out) {
    const struct hlo_attr *attr = instr_attr(instr, ATTR_FRONTEND_ATTRIBUTES);
    char *text = attr ? plain_text(attr->text) : NULL;
    const char *p = text ? strstr(text, key) : NULL;
    const char *manual = text ? strstr(text, "manual_axes{") : NULL;
    char *only = manual ? strndup(manual, strcspn(manual, "}")) : NULL;
    for (int i = 0; p && i <= k; i++) {
        p = strstr(p, "<@");
        if (p) p += 2;
    }
    struct axes axes;
    bool good = p && read_mesh(instr->parent->module, p, strcspn(p, ",>"), &axes) &&
                (rank == 0 || read_dims(p, &axes, only, rank, device, out));
    free(only);
    free(text);
    return good;
}

/* ---- the custom calls ---- */

static const struct {
    const char *target, *key; /* NULL: GSPMD, by sharding= */
    bool to_part;
} calls[] = {
    {"xla.sdy.GlobalToLocalShape", "in_shardings", true},
    {"xla.sdy.LocalToGlobalShape", "out_shardings", false},
    {"SPMDFullToShardShape", NULL, true},
    {"SPMDShardToFullShape", NULL, false},
};
enum { CALLS = sizeof calls / sizeof *calls };

static int call_number(const char *target) {
    int i = 0;
    while (i < CALLS && strcmp(calls[i].target, target) != 0)
        i++;
    return i;
}

bool eval_changes_parts(const char *target) {
    return call_number(target) < CALLS;
}

static bool place(const struct hlo_instr *instr, int call, int k, int rank, int device,
                  struct placement *out) {
    if (calls[call].key) return place_shardy(instr, calls[call].key, k, rank, device, out);
    const struct hlo_instr *whole = calls[call].to_part ? instr->operands[0] : instr;
    const struct hlo_attr *attr = instr_attr(whole, ATTR_SHARDING);
    return sharding_place(attr ? attr->sharding : NULL, rank, device, out->parts, out->index);
}

void part_copy(struct literal *part, struct literal *whole, const int64_t *index, bool to_part) {
    const struct shape *shape = part->shape;
    int64_t at[SHAPE_MAX_RANK] = {0}, strides[SHAPE_MAX_RANK];
    int last = shape->rank - 1;
    size_t size = (size_t)element_type_size(shape->type);
    size_t run = size * (size_t)(last >= 0 ? shape->dims[last] : 1);
    char *p = part->data;
    row_strides(whole->shape, strides);
    if (!shape->count) return;
    do {
        int64_t offset = 0;
        for (int i = 0; i <= last; i++)
            offset += (index[i] * shape->dims[i] + at[i]) * strides[i];
        char *w = (char *)whole->data + (size_t)offset * size;
        memcpy(to_part ? p : w, to_part ? w : p, run);
        p += run;
    } while (last >= 0 && index_next(last, shape->dims, at));
}

static bool parts_fit(const struct shape *part, const struct shape *whole,
                      const struct placement *p) {
    bool good = shape_is_array(part) && shape_is_array(whole) && part->type == whole->type &&
                part->rank == whole->rank;
    for (int i = 0; good && i < part->rank; i++)
        good = part->dims[i] * p->parts[i] == whole->dims[i];
    return good;
}

/* Value k of the result: this device's part of the operand, or the parts of all put together. */
static struct literal *change_part(struct eval *e, const struct hlo_instr *instr, int call, int k,
                                   const struct meeting *m, struct literal *op) {
    const struct shape *to = shape_is_tuple(instr->shape) ? instr->shape->tuple[k] : instr->shape;
    bool to_part = calls[call].to_part;
    struct literal *out = eval_new(e, instr, to);
    for (int d = 0; out && d < (to_part ? 1 : m->count); d++) {
        struct literal *in = to_part ? op : m->values[d * instr->noperands + k];
        struct literal *part = to_part ? out : in, *whole = to_part ? in : out;
        struct placement p;
        if (place(instr, call, k, to->rank, to_part ? e->device : d, &p) &&
            parts_fit(part->shape, whole->shape, &p)) {
            part_copy(part, whole, p.index, to_part);
        } else {
            eval_drop(e, out);
            return eval_error(e, instr, "no parts of value %d follow from its sharding", k);
        }
    }
    return out;
}

struct literal *eval_change_parts(struct eval *e, const struct hlo_instr *instr,
                                  struct literal **ops) {
    int call = call_number(instr_text(instr, ATTR_CUSTOM_CALL_TARGET)), n = instr->noperands;
    int size = eval_mesh_size(e->mesh);
    bool tuple = shape_is_tuple(instr->shape), good = true, meets = !calls[call].to_part;
    struct literal **parts = eval_scratch(e, instr, n, sizeof *parts), *result = NULL;
    int *all = eval_scratch(e, instr, size, sizeof *all);
    struct meeting m = {0};
    for (int i = 0; all && i < size; i++)
        all[i] = i;
    if ((tuple ? instr->shape->ntuple : 1) != n)
        good = eval_error(e, instr, "%d operands for another number of results", n) != NULL;
    good = good && parts && all && (!meets || eval_mesh_meet(e, instr, size, all, ops, &m));
    bool met = good && meets;
    for (int k = 0; good && k < n; k++)
        good = (parts[k] = change_part(e, instr, call, k, &m, ops[k])) != NULL;
    if (met) eval_mesh_leave(e, &m);
    if (good) result = tuple ? eval_new_tuple(e, instr, instr->shape, parts) : parts[0];
    for (int k = 0; parts && !good && k < n; k++)
        eval_drop(e, parts[k]);
    free(parts);
    free(all);
    return result;
}
