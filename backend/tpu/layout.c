#include "backend/tpu/layout.h"

#include <stdlib.h>
#include <string.h>

#define MOST_BYTES (INT64_C(1) << 62)

bool tpu_type_has_layout(enum element_type type) {
    if (!element_type_is_array(type)) return false;
    int size = element_type_size(type);
    return size == 1 || size == 2 || size == 4 || type == TYPE_S64 || type == TYPE_U64 ||
           type == TYPE_C64;
}

static bool multiply(int64_t *product, int64_t by) {
    return !__builtin_mul_overflow(*product, by, product) && *product < MOST_BYTES;
}

/* The least power of two that holds the rows, at least one packed row and at most a full tile. */
static int choose_tile_rows(int packing, int64_t rows) {
    int most = packing == 4 ? 32 : TPU_SUBLANES, tile = packing;
    while (tile < rows && tile < most)
        tile *= 2;
    return tile;
}

static void set_minor_sizes(struct tpu_layout *layout) {
    const int64_t *dims = layout->dims;
    layout->rows = layout->rank >= 2 ? dims[layout->order[1]] : 1;
    layout->lanes = layout->rank >= 1 ? dims[layout->order[0]] : 1;
    if (layout->rank != 1) return;
    layout->rows = ceil_div(layout->lanes, TPU_LANES);
    if (layout->lanes > TPU_LANES) layout->lanes = TPU_LANES;
}

static bool set_sizes(struct tpu_layout *layout) {
    set_minor_sizes(layout);
    layout->tile_rows = choose_tile_rows(layout->packing, layout->rows);
    layout->row_tiles = ceil_div(layout->rows, layout->tile_rows);
    layout->lane_tiles = ceil_div(layout->lanes, TPU_LANES);
    layout->majors = 1;
    bool empty = layout->row_tiles == 0 || layout->lane_tiles == 0;
    for (int i = 2; i < layout->rank; i++)
        empty |= layout->dims[layout->order[i]] == 0;
    layout->memory_rows = layout->bytes = 0;
    if (empty) {
        layout->majors = 0;
        return true;
    }
    for (int i = 2; i < layout->rank; i++)
        if (!multiply(&layout->majors, layout->dims[layout->order[i]])) return false;
    int64_t rows = layout->majors;
    if (!multiply(&rows, layout->row_tiles) || !multiply(&rows, layout->lane_tiles) ||
        !multiply(&rows, layout->tile_rows / layout->packing))
        return false;
    layout->memory_rows = layout->bytes = rows;
    return multiply(&layout->bytes, (int64_t)TPU_ROW_BYTES * layout->planes);
}

bool tpu_layout_with_order(struct tpu_layout *layout, const struct shape *shape, const int *order) {
    if (!tpu_type_has_layout(shape->type)) return false;
    int size = element_type_size(shape->type);
    memset(layout, 0, sizeof *layout);
    layout->type = shape->type;
    layout->rank = shape->rank;
    layout->dims = shape->dims;
    memcpy(layout->order, order, sizeof *order * (size_t)shape->rank);
    layout->planes = size == 8 ? 2 : 1;
    layout->packing = size >= 4 ? 1 : 4 / size;
    return set_sizes(layout);
}

bool tpu_layout_of(struct tpu_layout *layout, const struct shape *shape) {
    int order[SHAPE_MAX_RANK];
    for (int i = 0; i < shape->rank; i++)
        order[i] = shape_minor_to_major(shape, i);
    return tpu_layout_with_order(layout, shape, order);
}

/* Moves the dimension at place `from` to place `to`, the others keeping their order. */
static void move_order(int *order, int from, int to) {
    int dim = order[from];
    for (; from > to; from--)
        order[from] = order[from - 1];
    for (; from < to; from++)
        order[from] = order[from + 1];
    order[to] = dim;
}

/* Padding depends on which two dimensions are minor, so those pairs are all there is to try. */
bool tpu_layout_best(struct tpu_layout *best, const struct shape *shape) {
    bool found = tpu_layout_of(best, shape);
    int own[SHAPE_MAX_RANK];
    for (int i = 0; i < shape->rank; i++)
        own[i] = shape_minor_to_major(shape, i);
    for (int lane = 0; lane < shape->rank; lane++) {
        for (int row = 0; row < shape->rank && shape->rank > 1; row++) {
            int order[SHAPE_MAX_RANK];
            struct tpu_layout other;
            if (row == lane) continue;
            memcpy(order, own, sizeof *own * (size_t)shape->rank);
            move_order(order, lane, 0);
            move_order(order, row + (row < lane), 1);
            if (!tpu_layout_with_order(&other, shape, order)) continue;
            if (found && other.bytes >= best->bytes) continue;
            *best = other;
            found = true;
        }
    }
    return found;
}

int64_t tpu_layout_unpadded_bytes(const struct tpu_layout *layout) {
    int64_t count = 1;
    for (int i = 0; i < layout->rank; i++)
        count *= layout->dims[i];
    return count * (4 * layout->planes / layout->packing);
}

/* ---- equal places ---- */

/* `size` steps of an element's number, `number` each, and what each adds to its address, counted in
 * the elements that memory holds. A size that tiles do not divide is one digit of its own kind: its
 * address is negative, and says how it is divided. */
struct digit {
    int64_t size, number, address;
};

struct digits {
    struct digit v[4 * SHAPE_MAX_RANK];
    int count;
};

static void add_digit(struct digits *digits, int64_t size, int64_t number, int64_t address) {
    if (size > 1) digits->v[digits->count++] = (struct digit){size, number, address};
}

/* A dimension in steps of `unit` places that lie `inner` apart; `outer` from unit to unit. */
static void add_divided(struct digits *digits, int64_t size, int64_t unit, int64_t number,
                        int64_t inner, int64_t outer) {
    if (size <= unit || outer == unit * inner) {
        add_digit(digits, size, number, inner);
    } else if (size % unit) {
        add_digit(digits, size, number, -outer);
    } else {
        add_digit(digits, unit, number, inner);
        add_digit(digits, size / unit, number * unit, outer);
    }
}

/* Rows: neighbours share a lane, groups of those a tile. */
static void add_rows(struct digits *digits, const struct tpu_layout *layout, int64_t size,
                     int64_t number) {
    int64_t p = layout->packing, tile = (int64_t)layout->tile_rows * TPU_LANES;
    if (p == 1) {
        add_divided(digits, size, layout->tile_rows, number, TPU_LANES, layout->lane_tiles * tile);
    } else if (size % p == 0 || size < p) {
        add_digit(digits, size < p ? size : p, number, 1);
        add_divided(digits, size / p, layout->tile_rows / p, number * p, TPU_LANES * p,
                    layout->lane_tiles * tile);
    } else {
        add_digit(digits, size, number, -layout->lane_tiles * tile);
    }
}

static int by_number(const void *x, const void *y) {
    const struct digit *a = x, *b = y;
    return (a->number > b->number) - (a->number < b->number);
}

/* Digits that go on where the one before ends become one with it. */
static void join_digits(struct digits *digits) {
    int count = 0;
    qsort(digits->v, (size_t)digits->count, sizeof *digits->v, by_number);
    for (int i = 0; i < digits->count; i++) {
        struct digit *last = count ? &digits->v[count - 1] : NULL, next = digits->v[i];
        if (last && last->address > 0 && next.address == last->address * last->size &&
            next.number == last->number * last->size)
            last->size *= next.size;
        else
            digits->v[count++] = next;
    }
    digits->count = count;
}

static void find_digits(const struct tpu_layout *layout, const int64_t *strides,
                        struct digits *digits) {
    int64_t own[SHAPE_MAX_RANK], p = layout->packing, step = 1;
    digits->count = 0;
    for (int d = layout->rank - 1; d >= 0; d--) {
        own[d] = step;
        step *= layout->dims[d];
    }
    if (!strides) strides = own;
    if (layout->rank == 1 && p == 1) {
        add_digit(digits, layout->dims[0], strides[0], 1);
    } else if (layout->rank == 1) {
        int64_t size = layout->dims[0], number = strides[0];
        add_digit(digits, size < TPU_LANES ? size : TPU_LANES, number, p);
        add_rows(digits, layout, layout->rows, number * TPU_LANES);
    } else if (layout->rank > 1) {
        int lane = layout->order[0], row = layout->order[1];
        add_divided(digits, layout->dims[lane], TPU_LANES, strides[lane], p,
                    (int64_t)layout->tile_rows * TPU_LANES);
        add_rows(digits, layout, layout->dims[row], strides[row]);
        step = layout->row_tiles * layout->lane_tiles * layout->tile_rows * TPU_LANES;
        for (int i = 2; i < layout->rank; i++) {
            int d = layout->order[i];
            add_digit(digits, layout->dims[d], strides[d], step);
            step *= layout->dims[d];
        }
    }
    join_digits(digits);
}

bool tpu_layout_same_places(const struct tpu_layout *a, const int64_t *a_strides,
                            const struct tpu_layout *b, const int64_t *b_strides) {
    struct digits x, y;
    if (a->packing != b->packing || a->planes != b->planes || a->memory_rows < b->memory_rows ||
        (a->planes > 1 && a->memory_rows != b->memory_rows))
        return false;
    find_digits(a, a_strides, &x);
    find_digits(b, b_strides, &y);
    if (x.count != y.count) return false;
    for (int i = 0; i < x.count; i++)
        if (x.v[i].size != y.v[i].size || x.v[i].number != y.v[i].number ||
            x.v[i].address != y.v[i].address)
            return false;
    return true;
}

char *tpu_layout_text(struct arena *arena, const struct tpu_layout *layout) {
    char *text = arena_printf(arena, "%s[", element_type_name(layout->type));
    for (int i = 0; i < layout->rank; i++)
        text = arena_printf(arena, "%s%s%lld", text, i ? "," : "", (long long)layout->dims[i]);
    text = arena_printf(arena, "%s]{", text);
    for (int i = 0; i < layout->rank; i++)
        text = arena_printf(arena, "%s%s%d", text, i ? "," : "", layout->order[i]);
    bool flat = layout->rank < 2;
    text = flat ? arena_printf(arena, "%s:T(%d)", text, layout->tile_rows * TPU_LANES)
                : arena_printf(arena, "%s:T(%d,%d)", text, layout->tile_rows, TPU_LANES);
    if (layout->packing > 1)
        text = arena_printf(arena, "%s%s(%d,1)", text, flat ? "(128)" : "", layout->packing);
    return arena_printf(arena, "%s}", text);
}

/* ---- places ---- */

int64_t tpu_layout_row(const struct tpu_layout *layout, int64_t major, int64_t row,
                       int64_t lane_tile) {
    int64_t tile = (major * layout->row_tiles + row / layout->tile_rows) * layout->lane_tiles;
    return (tile + lane_tile) * (layout->tile_rows / layout->packing) +
           row % layout->tile_rows / layout->packing;
}

int tpu_layout_part(const struct tpu_layout *layout, int64_t row) {
    return (int)(row % layout->packing);
}

/* Byte of the image, in plane 0, at which the element with that index lies. */
static int64_t place_of(const struct tpu_layout *layout, const int64_t *index) {
    int64_t row = 0, lane = 0, major = 0;
    if (layout->rank == 1) {
        row = index[0] / TPU_LANES;
        lane = index[0] % TPU_LANES;
    } else if (layout->rank > 1) {
        lane = index[layout->order[0]];
        row = index[layout->order[1]];
        for (int i = layout->rank - 1; i >= 2; i--)
            major = major * layout->dims[layout->order[i]] + index[layout->order[i]];
    }
    int64_t at = tpu_layout_row(layout, major, row, lane / TPU_LANES) * TPU_ROW_BYTES;
    at += lane % TPU_LANES * 4 + tpu_layout_part(layout, row) * (4 / layout->packing);
    return at;
}

static bool next_index(const struct tpu_layout *layout, int64_t *index) {
    for (int d = layout->rank - 1; d >= 0; d--) {
        if (++index[d] < layout->dims[d]) return true;
        index[d] = 0;
    }
    return false;
}

typedef void copy_function(char *image, char *dense, size_t size);

static void to_image(char *image, char *dense, size_t size) {
    memcpy(image, dense, size);
}

static void to_dense(char *image, char *dense, size_t size) {
    memcpy(dense, image, size);
}

static void each_element(const struct tpu_layout *layout, char *image, char *dense,
                         copy_function *copy) {
    int64_t index[SHAPE_MAX_RANK] = {0};
    size_t size = 4 / (size_t)layout->packing;
    if (layout->memory_rows == 0) return;
    do {
        char *at = image + place_of(layout, index);
        for (int p = 0; p < layout->planes; p++, dense += size)
            copy(at + p * layout->memory_rows * TPU_ROW_BYTES, dense, size);
    } while (next_index(layout, index));
}

void tpu_layout_store(const struct tpu_layout *layout, const void *dense, void *image) {
    memset(image, 0, (size_t)layout->bytes);
    each_element(layout, image, (char *)dense, to_image);
}

void tpu_layout_load(const struct tpu_layout *layout, const void *image, void *dense) {
    each_element(layout, (char *)image, dense, to_dense);
}
