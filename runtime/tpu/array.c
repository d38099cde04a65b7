/* Host arrays and their tiled images in HBM. XLA's tiling rule splits each dimension by itself, so
 * an element's position is a sum of one term a dimension: a table for each. */
#include <stdlib.h>
#include <string.h>

#include "runtime/tpu/program.h"

/* Physical dimensions after the layout's order and all levels of tiles, major to minor: each a
 * piece (/ divisor, % size) of one logical dimension. */
struct piece {
    int dim;
    int64_t divisor, size;
};
enum { MAX_PIECES = TPU_MAX_RANK + TPU_MAX_TILES * TPU_MAX_TILE_RANK };
static const int64_t max_elements = INT64_C(1) << 40;

static int64_t ceil_div(int64_t a, int64_t b) {
    return a / b + (a % b != 0);
}

static int layout_pieces(const struct tpu_array *array, struct piece *pieces) {
    bool seen[TPU_MAX_RANK] = {false};
    int count = array->rank;
    if (count < 0 || count > TPU_MAX_RANK) return -1;
    for (int i = 0; i < count; i++) {
        int dim = array->minor_to_major[i];
        if (dim < 0 || dim >= count || seen[dim]) return -1;
        seen[dim] = true;
        if (array->dims[dim] < 0 || array->dims[dim] > max_elements) return -1;
        pieces[count - 1 - i] = (struct piece){dim, 1, array->dims[dim]};
    }
    return count;
}

/* Splits the last dimensions by one level of tiles; the new count of pieces, or -1. */
static int split_pieces(struct piece *pieces, int count, const struct tpu_tile *tile) {
    if (tile->rank < 1 || tile->rank > TPU_MAX_TILE_RANK || tile->rank > count) return -1;
    for (int i = 0; i < tile->rank; i++) {
        struct piece *outer = &pieces[count - tile->rank + i], *inner = outer + tile->rank;
        int64_t size = tile->dims[i];
        if (size < 1 || size > INT64_C(1) << 20) return -1;
        *inner = (struct piece){outer->dim, outer->divisor, size};
        outer->size = ceil_div(outer->size, size);
        outer->divisor *= size;
        if (outer->divisor > max_elements) return -1;
    }
    return count + tile->rank;
}

static int array_pieces(const struct tpu_array *array, struct piece *pieces, int64_t *elements) {
    int count = layout_pieces(array, pieces);
    if (array->ntiles < 0 || array->ntiles > TPU_MAX_TILES) return -1;
    for (int i = 0; i < array->ntiles && count >= 0; i++)
        count = split_pieces(pieces, count, &array->tiles[i]);
    int64_t product = 1;
    for (int i = 0; i < count; i++) {
        if (pieces[i].size && product > max_elements / pieces[i].size) return -1;
        product *= pieces[i].size;
    }
    *elements = product;
    return count;
}

int64_t tpu_array_plane_bytes(const struct tpu_array *array) {
    struct piece pieces[MAX_PIECES];
    int64_t elements;
    if (array_pieces(array, pieces, &elements) < 0) return -1;
    if (array->bits != 8 && array->bits != 16 && array->bits != 32) return -1;
    return ceil_div(elements * (array->bits / 8), TPU_HBM_ALIGN) * TPU_HBM_ALIGN;
}

static bool is_void(const struct tpu_array *array) {
    for (int d = 0; d < array->rank; d++) {
        if (!array->dims[d]) return true;
    }
    return false;
}

/* Offsets in elements for every index of every dimension, one after another; malloc memory. */
static int64_t *offset_tables(const struct tpu_array *array, int64_t **table) {
    struct piece pieces[MAX_PIECES];
    int64_t elements, total = 1;
    int count = array_pieces(array, pieces, &elements);
    for (int d = 0; d < array->rank; d++)
        total += array->dims[d];
    int64_t *storage = calloc((size_t)total, sizeof *storage), *next = storage;
    if (!storage) return NULL;
    for (int d = 0; d < array->rank; next += array->dims[d++])
        table[d] = next;
    int64_t stride = 1;
    for (int i = count - 1; i >= 0; i--) {
        const struct piece *p = &pieces[i];
        for (int64_t k = 0; k < array->dims[p->dim]; k++)
            table[p->dim][k] += k / p->divisor % p->size * stride;
        stride *= p->size;
    }
    return storage;
}

struct mover {
    const struct tpu_array *array;
    uint8_t *host, *hbm;
    bool store;
    int64_t *table[TPU_MAX_RANK];
};

static void store_element(const struct tpu_array *array, const uint8_t *host, uint8_t *hbm) {
    size_t bytes = (size_t)array->bits / 8, each = (size_t)array->host_bytes;
    uint8_t value[8] = {0};
    memcpy(value, host, each);
    if (array->is_signed && (value[each - 1] & 0x80)) memset(value + each, 0xff, 8 - each);
    for (int p = 0; p < array->planes; p++)
        memcpy(hbm + (uint64_t)p * array->plane_bytes, value + (size_t)p * bytes, bytes);
}

static void load_element(const struct tpu_array *array, const uint8_t *hbm, uint8_t *host) {
    size_t bytes = (size_t)array->bits / 8;
    uint8_t value[8] = {0};
    for (int p = 0; p < array->planes; p++)
        memcpy(value + (size_t)p * bytes, hbm + (uint64_t)p * array->plane_bytes, bytes);
    memcpy(host, value, (size_t)array->host_bytes);
}

/* `count` elements of `bytes` each, that lie `to_step` and `from_step` elements apart. */
static void copy_strided(uint8_t *to, int64_t to_step, const uint8_t *from, int64_t from_step,
                         int64_t count, int bytes) {
    if (to_step == 1 && from_step == 1) {
        memcpy(to, from, (size_t)(count * bytes));
        return;
    }
    for (int64_t i = 0; i < count; i++, to += to_step * bytes, from += from_step * bytes) {
        switch (bytes) {
        case 1: *to = *from; break;
        case 2: memcpy(to, from, 2); break;
        default: memcpy(to, from, 4); break;
        }
    }
}

/* One row along the last dimension, in pieces whose elements lie equally far apart. */
static void move_row(const struct mover *m, uint8_t *host, int64_t offset) {
    const struct tpu_array *a = m->array;
    int64_t count = a->rank ? a->dims[a->rank - 1] : 1;
    static const int64_t zero[1];
    const int64_t *table = a->rank ? m->table[a->rank - 1] : zero;
    int bytes = a->bits / 8;
    bool plain = a->planes == 1 && a->host_bytes == bytes;
    for (int64_t i = 0; i < count;) {
        int64_t run = 1, step = i + 1 < count ? table[i + 1] - table[i] : 1;
        while (plain && i + run < count && table[i + run] - table[i + run - 1] == step)
            run++;
        uint8_t *here = host + i * a->host_bytes, *there = m->hbm + (offset + table[i]) * bytes;
        if (plain && m->store) {
            copy_strided(there, step, here, 1, run, bytes);
        } else if (plain) {
            copy_strided(here, 1, there, step, run, bytes);
        } else if (m->store) {
            store_element(a, here, there);
        } else {
            load_element(a, there, here);
        }
        i += run;
    }
}

static void move_array(struct mover *m) {
    const struct tpu_array *a = m->array;
    int64_t index[TPU_MAX_RANK] = {0}, offset = 0, rows = 1;
    int outer = a->rank - 1;
    for (int d = 0; d < outer; d++) {
        rows *= a->dims[d];
        if (a->dims[d]) offset += m->table[d][0];
    }
    int64_t row_bytes = (a->rank ? a->dims[a->rank - 1] : 1) * a->host_bytes;
    uint8_t *host = m->host;
    for (int64_t row = 0; row < rows; row++, host += row_bytes) {
        move_row(m, host, offset);
        for (int d = outer - 1; d >= 0; d--) {
            offset -= m->table[d][index[d]];
            index[d] = index[d] + 1 < a->dims[d] ? index[d] + 1 : 0;
            offset += m->table[d][index[d]];
            if (index[d]) break;
        }
    }
}

int tpu_array_store(const struct tpu_array *array, const void *host, uint8_t *hbm) {
    struct mover m = {.array = array, .host = (uint8_t *)host, .hbm = hbm, .store = true};
    if (is_void(array)) return 0;
    int64_t *storage = offset_tables(array, m.table);
    if (!storage) return -1;
    move_array(&m);
    free(storage);
    return 0;
}

int tpu_array_load(const struct tpu_array *array, const uint8_t *hbm, void *host) {
    struct mover m = {.array = array, .host = host, .hbm = (uint8_t *)hbm};
    if (is_void(array)) return 0;
    int64_t *storage = offset_tables(array, m.table);
    if (!storage) return -1;
    move_array(&m);
    free(storage);
    return 0;
}
