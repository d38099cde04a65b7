#include "compiler/npy.h"

#include <errno.h>
#include <string.h>

#include "runtime/cpu/npy_file.h"

_Static_assert(SHAPE_MAX_RANK <= (int)NPY_MAX_RANK, "shapes of files");
_Static_assert(sizeof(struct fault) >= NPY_WHY, "reasons");

char npy_kind(enum element_type type) {
    const struct element_type_info *info = element_type_info(type);
    switch (info->kind) {
    case KIND_PRED: return 'b';
    case KIND_SIGNED: return info->bits < 8 ? 'V' : 'i';
    case KIND_UNSIGNED: return info->bits < 8 ? 'V' : 'u';
    case KIND_FLOAT: return type == TYPE_F16 || type == TYPE_F32 || type == TYPE_F64 ? 'f' : 'V';
    case KIND_COMPLEX: return 'c';
    default: return 0;
    }
}

static struct hlocc_rt_npy_type type_of(const struct shape *shape) {
    const struct element_type_info *info = element_type_info(shape->type);
    return (struct hlocc_rt_npy_type){.name = element_type_name(shape->type),
                                      .kind = npy_kind(shape->type),
                                      .size = element_type_size(shape->type),
                                      .bits = info->bits,
                                      .is_signed = info->kind == KIND_SIGNED,
                                      .is_unsigned = info->kind == KIND_UNSIGNED,
                                      .rank = shape->rank,
                                      .dims = shape->dims};
}

static struct literal *read_stream(FILE *file, int64_t size, const struct shape *shape,
                                   struct fault *fault) {
    struct hlocc_rt_npy_type type = type_of(shape);
    struct hlocc_rt_npy npy;
    if (!hlocc_rt_npy_begin(&npy, file, size, &type, fault->text)) return NULL;
    struct literal *literal = literal_new_uninit(shape);
    uint8_t nothing = 0; /* an empty array has no memory */
    void *data = literal && literal->size ? literal->data : literal ? &nothing : NULL;
    if (hlocc_rt_npy_end(&npy, data, fault->text)) return literal;
    literal_unref(literal);
    return NULL;
}

struct literal *npy_decode(const uint8_t *bytes, size_t size, const struct shape *shape,
                           struct fault *fault) {
    FILE *file = fmemopen((void *)bytes, size, "rb");
    if (!file) return fault_set(fault, "cannot be read: %s", strerror(errno)), NULL;
    struct literal *literal = read_stream(file, (int64_t)size, shape, fault);
    fclose(file);
    return literal;
}

struct literal *npy_read(const char *path, const struct shape *shape, struct fault *fault) {
    int64_t size;
    FILE *file = file_open(path, &size, fault);
    if (!file) return NULL;
    struct literal *literal = read_stream(file, size, shape, fault);
    fclose(file);
    return literal;
}

bool npy_write(const char *path, const struct literal *literal, struct fault *fault) {
    struct hlocc_rt_npy_type type = type_of(literal->shape);
    struct output output;
    if (!type.kind) return fault_set(fault, "cannot hold %s", type.name);
    if (!output_open(&output, path, fault)) return false;
    hlocc_rt_npy_write(output.stream, &type, literal->data);
    return output_commit(&output, fault);
}
