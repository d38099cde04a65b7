#include <string.h>

#include "backend/cpu/matmul_internal.h"
#include "backend/cpu/matmul_kernel.h"
#include "backend/cpu/pack.h"

/* ---- dimensions ---- */

static bool continues(const struct product_dim *outer, const struct product_dim *inner) {
    return outer->a == inner->a * inner->size && outer->b == inner->b * inner->size &&
           outer->c == inner->c * inner->size;
}

static void merge(struct product_dims *dims) {
    int n = 0;
    for (int i = 0; i < dims->count; i++) {
        struct product_dim d = dims->v[i];
        if (d.size == 1) continue;
        if (n > 0 && continues(&dims->v[n - 1], &d)) {
            d.size *= dims->v[n - 1].size;
            n--;
        }
        dims->v[n++] = d;
    }
    dims->count = n;
}

static int64_t magnitude(int64_t x) {
    return x < 0 ? -x : x;
}

/* Sums may be taken in any order: A's smallest step goes innermost. */
static void sort_by_a(struct product_dims *dims) {
    for (int i = 1; i < dims->count; i++) {
        struct product_dim d = dims->v[i];
        int at = i;
        for (; at > 0 && magnitude(dims->v[at - 1].a) < magnitude(d.a); at--)
            dims->v[at] = dims->v[at - 1];
        dims->v[at] = d;
    }
}

int64_t product_dims_size(const struct product_dims *dims) {
    int64_t size = 1;
    for (int i = 0; i < dims->count; i++)
        size *= dims->v[i].size;
    return size;
}

/* The step of one operand through all of dims where it is the same everywhere; else false. */
bool product_dims_linear(const struct product_dims *dims, enum product_operand operand,
                         int64_t *step) {
    *step = 0;
    for (int i = dims->count - 1; i >= 0; i--) {
        int64_t s = product_stride(&dims->v[i], operand);
        if (i == dims->count - 1)
            *step = s;
        else if (s != product_stride(&dims->v[i + 1], operand) * dims->v[i + 1].size)
            return false;
    }
    return true;
}

/* ---- element types ---- */

static enum element_type sum_type(const struct product_spec *spec) {
    enum element_type types[] = {spec->a_type, spec->b_type, spec->c_type};
    bool real = element_type_is_float(spec->c_type);
    for (int i = 0; i < 3; i++) {
        if (real ? !element_type_is_float(types[i]) : !element_type_is_integral(types[i]))
            return TYPE_INVALID;
    }
    if (real) return spec->c_type == TYPE_F64 ? TYPE_F64 : TYPE_F32;
    return element_type_size(spec->c_type) > 4 ? TYPE_S64 : TYPE_S32;
}

bool product_spec_has_code(const struct product_spec *spec) {
    enum { MOST_TAPS = 1 << 16 }; /* a table of them is in the code */
    const struct product_dims *all[] = {&spec->batch, &spec->m, &spec->n, &spec->k};
    for (int i = 0; i < 4; i++)
        if (product_dims_size(all[i]) == 0) return false;
    struct product_dims k = spec->k;
    sort_by_a(&k);
    merge(&k);
    if (k.count > 0) k.count--;
    return product_dims_size(&k) <= MOST_TAPS && sum_type(spec) != TYPE_INVALID;
}

/* Signs make no difference to the bits of a product. */
static bool same_bits(enum element_type x, enum element_type y) {
    return x == y || (element_type_is_integral(x) && element_type_is_integral(y) &&
                      element_type_size(x) == element_type_size(y));
}

/* ---- blocks ---- */

static int64_t round_up(int64_t x, int64_t to) {
    return (x + to - 1) / to * to;
}

static int64_t clamp(int64_t x, int64_t low, int64_t high) {
    return x < low ? low : x > high ? high : x;
}

/* Whether A is packed and a unit takes all of its rows: to pack them anew for each block of columns
 * is less than to pack B. */
static bool packs_few_rows(const struct product_plan *p) {
    enum { FEW_ROWS = 128 };
    return p->a_mode != A_IN_PLACE && p->m <= FEW_ROWS && p->spec.stage.when == STAGE_NEVER;
}

static void choose_k_block(struct product_plan *p, const struct cpu_target *target) {
    enum { FEW_ROWS = 96 };
    /* A tile's rows of A stay in the first-level cache while panels of B pass. */
    int64_t most = target->l1 * 3 / 8 / (p->rows * element_type_size(p->type));
    most = clamp(most, 64, 1024);
    /* What is packed anew for each block of columns calls for wider and flatter blocks. */
    if (p->a_mode != A_IN_PLACE && !packs_few_rows(p)) most = (most + 1) / 2;
    p->taps = 1;
    for (int i = 0; i + 1 < p->spec.k.count; i++)
        p->taps *= p->spec.k.v[i].size;
    p->run = p->k / p->taps;
    if (p->spec.stage.when == STAGE_BLOCK) {
        p->k_block = p->taps > 1 ? p->taps : p->run;
        p->k_blocks = p->spec.stage.images * product_stage_bands(&p->spec.stage);
        return;
    }
    int64_t unit = p->taps > 1 ? p->run : 1, count = p->k / unit;
    /* Fewer blocks write C less often, which is worth more of that cache. */
    int64_t longest = p->a_mode == A_IN_PLACE ? 5 * most / 2 : 5 * most / 4;
    /* What few rows take with a block is no longer than to read the next one from memory, which
     * they ask for: both have to be in the second-level cache. */
    if (p->m <= FEW_ROWS && longest > most) longest = most;
    int64_t blocks = (p->k + longest - 1) / longest;
    if (blocks > count) blocks = count;
    p->k_block = (count + blocks - 1) / blocks;
    p->k_blocks = (count + p->k_block - 1) / p->k_block;
}

/* Whether each step of k touches another line of every tile's rows. */
static bool lies_badly(const struct product_plan *p) {
    const struct product_dims *m = &p->spec.m, *k = &p->spec.k;
    int64_t row = m->count ? m->v[m->count - 1].a : 0, step = k->count ? k->v[k->count - 1].a : 0;
    return magnitude(step) * element_type_size(p->type) >= 256 && magnitude(row) == 1 &&
           p->k >= 64 && p->m >= 4 * p->rows && p->n >= 64;
}

static bool is_short(enum element_type type) {
    return type == TYPE_S8 || type == TYPE_U8 || type == TYPE_S16;
}

/* Two steps of k at once, where the target can. */
static void choose_pairs(struct product_plan *p, const struct cpu_target *target) {
    enum { LEAST_K = 8 };
    const struct product_spec *s = &p->spec;
    if (s->k.count != 1 || p->k < LEAST_K || s->stage.when != STAGE_NEVER) return;
    if (p->type == TYPE_S32 && is_short(s->a_type) && is_short(s->b_type)) {
        p->pair = TYPE_S16;
        p->how_pairs = target->s16_pairs;
    } else if (p->type == TYPE_F32 && s->a_type == TYPE_BF16 && s->b_type == TYPE_BF16) {
        p->pair = TYPE_BF16;
        p->how_pairs = target->bf16_pairs;
    }
    if (p->how_pairs == PAIRS_NONE) p->pair = TYPE_INVALID;
    if (p->pair == TYPE_INVALID) return;
    p->odd = p->k % 2;
    p->k = (p->k + 1) / 2;
}

static void choose_a_mode(struct product_plan *p) {
    const struct product_dims *k = &p->spec.k;
    int64_t step = k->count ? k->v[k->count - 1].a : 1;
    if (p->pair != TYPE_INVALID) {
        bool as_it_is = p->spec.a_type == p->pair && step == 1 && !p->odd;
        p->a_mode = as_it_is ? A_IN_PLACE : A_ROWS;
        return;
    }
    bool same = same_bits(p->spec.a_type, p->type);
    p->a_mode = A_IN_PLACE;
    if (p->spec.stage.when != STAGE_NEVER) return;
    if (!same || lies_badly(p)) p->a_mode = step == 1 ? A_ROWS : A_PANELS;
}

/* B in panels: a dimension of them, each of all rows, a tile's columns wide. */
static bool is_in_panels(const struct product_plan *p) {
    const struct product_dims *n = &p->spec.n;
    int64_t columns = p->vectors * p->lanes, step;
    if (n->count < 1 || n->count > 2) return false;
    if (n->v[n->count - 1].size != columns || n->v[n->count - 1].b != 1) return false;
    if (n->count == 2 && n->v[0].b != columns * p->k) return false;
    if (p->n > (n->count == 2 ? n->v[0].size : 1) * columns) return false;
    return product_dims_linear(&p->spec.k, PRODUCT_B, &step) && (step == columns || p->k == 1);
}

/* Few rows of A read a B that stays in the caches as often as packing it would. */
static bool reads_rows(const struct product_plan *p, const struct cpu_target *target) {
    const struct product_dims *n = &p->spec.n;
    int64_t step, size = element_type_size(p->type);
    if (n->count != 1 || n->v[0].b != 1 || p->n % (p->vectors * p->lanes) != 0) return false;
    if (!product_dims_linear(&p->spec.k, PRODUCT_B, &step) || step < p->n) return false;
    return p->m <= 4 * p->rows && step * p->k * size <= target->l2 / 2;
}

static void choose_b_mode(struct product_plan *p, const struct cpu_target *target) {
    p->b_mode = B_PACKED;
    if (!same_bits(p->spec.b_type, p->type) || p->spec.stage.when == STAGE_BLOCK) return;
    if (is_in_panels(p))
        p->b_mode = B_PANELS;
    else if (reads_rows(p, target))
        p->b_mode = B_ROWS;
}

int product_panel_columns(const struct product_plan *p) {
    enum { MOST_ROWS_OF_A = 1024 }; /* packing is nothing beside more */
    int columns = p->vectors * p->lanes;
    if (p->method != PRODUCT_TILES || p->b_mode != B_PACKED || p->swapped) return 0;
    if (!same_bits(p->spec.b_type, p->type) || p->spec.stage.when == STAGE_BLOCK) return 0;
    return p->m <= MOST_ROWS_OF_A ? columns : 0;
}

enum { MOST_ROWS = 512 }; /* of a unit */

static void choose_m_block(struct product_plan *p, int64_t wanted) {
    const struct product_stage *stage = &p->spec.stage;
    if (stage->when == STAGE_UNIT) {
        p->m_block = p->m / stage->count * stage->band;
        return;
    }
    /* Less than this is not worth a unit of its own. */
    int64_t work = 1 << 18, least = work / clamp(p->k * p->n_block, 1, work);
    p->m_block = clamp((p->m + wanted - 1) / wanted, clamp(least, 1, p->m), MOST_ROWS);
    p->m_block = round_up(clamp(p->m_block, 1, p->m), p->rows);
}

static bool depends_on_batch(const struct product_dims *batch, enum product_operand operand) {
    for (int i = 0; i < batch->count; i++)
        if (product_stride(&batch->v[i], operand) != 0) return true;
    return false;
}

/* Whether units had better be whole rows of C: threads that write columns side by side ask for each
 * other's lines of it, all the more where a row is no whole lines. That takes longer than to
 * compute with few steps of k, and than to pack a small B once for each thread. */
static bool suits_whole_rows(const struct product_plan *p, const struct cpu_target *target) {
    enum { LINE = 64, FEW_STEPS = 64, LEAST_ROWS = 256 };
    int64_t size = element_type_size(p->type), row = 0;
    if (p->spec.stage.when != STAGE_NEVER || p->k_blocks > 1 || p->batch > 1) return false;
    for (int i = 0; i < p->spec.m.count; i++)
        row = p->spec.m.v[i].c * element_type_size(p->spec.c_type);
    bool apart = row % LINE == 0 && p->k > FEW_STEPS;
    return p->m >= (apart ? 2 : 1) * LEAST_ROWS && p->k * p->n * size <= target->l2;
}

/* Whether kernels can read B as it lies: they widen halves where that is one instruction. */
static bool kernels_read(const struct product_plan *p, const struct cpu_target *target) {
    enum element_type from = p->spec.b_type;
    if (same_bits(from, p->type)) return true;
    if (p->type != TYPE_F32) return false;
    return from == TYPE_BF16 || (from == TYPE_F16 && target->widens_f16);
}

static void choose_units(struct product_plan *p, const struct cpu_target *target) {
    /* Units, for threads to share; each stages all that it reads, of all places of the window. */
    enum { FEW = 4, MANY = 8 };
    int columns = p->vectors * p->lanes;
    int64_t size = element_type_size(p->type), others = p->batch;
    if (p->spec.stage.when == STAGE_UNIT)
        others *= product_stage_bands(&p->spec.stage);
    else
        others *= (p->m + MOST_ROWS - 1) / MOST_ROWS;
    int64_t wanted = p->spec.stage.when == STAGE_BLOCK && others <= FEW ? FEW : MANY;
    /* Columns are shared out first: what is packed of B is then packed once. */
    int64_t parts = (wanted + others - 1) / others;
    /* One block of B stays in the second-level cache while the rows of A pass. */
    int64_t most = target->l2 / 2 / clamp(product_k_rows(p) * size, 1, target->l2);
    int64_t least = p->a_mode == A_IN_PLACE ? 64 : packs_few_rows(p) ? 128 : 512;
    p->n_block = clamp((p->n + parts - 1) / parts, least, clamp(most, least, 512));
    if (suits_whole_rows(p, target)) p->n_block = p->n;
    p->n_block = round_up(clamp(p->n_block, 1, p->n), columns);
    int64_t blocks = (p->n + p->n_block - 1) / p->n_block;
    p->n_block = round_up((p->n + blocks - 1) / blocks, columns);
    blocks = (p->n + p->n_block - 1) / p->n_block;
    choose_m_block(
        p, packs_few_rows(p) ? 1 : clamp(wanted / clamp(p->batch * blocks, 1, wanted), 1, wanted));
    p->n_outermost = !depends_on_batch(&p->spec.batch, PRODUCT_B);
    p->shares_b = p->b_mode == B_PACKED &&
                  (product_m_blocks(p) > 1 || (p->n_outermost && p->batch > 1)) &&
                  p->spec.stage.when != STAGE_BLOCK && p->k * p->n_block * size <= 4 * target->l2;
    const struct product_dims *n = &p->spec.n;
    int64_t row;
    p->packs_first = p->b_mode == B_PACKED && p->pair == TYPE_INVALID && kernels_read(p, target) &&
                     n->count == 1 && n->v[0].b == 1 &&
                     product_dims_linear(&p->spec.k, PRODUCT_B, &row) &&
                     p->spec.stage.when != STAGE_BLOCK;
    if (p->a_mode == A_IN_PLACE && p->spec.stage.when != STAGE_BLOCK) {
        struct matmul_tile tile = {.rows = p->rows, .vectors = p->vectors};
        int64_t last = product_last_rows(p), all = last == p->m_block ? last : p->m;
        p->low_tiles = matmul_low_tiles(&tile, last, all, &p->low_rows);
    }
    p->m_chunk = product_m_rows(p);
    if (p->a_mode != A_IN_PLACE) {
        int64_t share = target->l2 / (packs_few_rows(p) ? 2 : 4);
        int64_t fits = share / clamp(product_k_rows(p) * size, 1, target->l2);
        p->m_chunk = clamp(fits / p->rows * p->rows, p->rows, p->m_chunk);
    }
    p->one_panel = p->packs_first && p->a_mode != A_IN_PLACE && !p->shares_b &&
                   p->m_chunk >= p->m_block && p->n % columns == 0;
    p->units = p->batch * blocks * product_m_blocks(p);
}

/* ---- scratch memory ---- */

static int64_t take(int64_t *offset, int64_t bytes) {
    int64_t at = *offset;
    *offset += round_up(bytes, 64);
    return at;
}

void product_layout(const struct product_plan *p, struct product_scratch *s) {
    int64_t size = element_type_size(p->type), total = 0;
    int64_t depth = p->shares_b ? p->k : product_k_rows(p);
    s->b = total;
    int64_t columns = p->one_panel ? p->vectors * p->lanes : p->n_block;
    if (p->b_mode == B_PACKED) take(&total, depth * columns * size);
    s->a = total;
    if (p->a_mode != A_IN_PLACE) take(&total, p->m_chunk * product_a_row(p) * size);
    s->sums = total;
    if (p->keeps_sums) take(&total, product_m_rows(p) * p->n_block * size);
    s->rows = take(&total, 8 * product_m_rows(p));
    s->stage = take(&total, product_stage_elements(&p->spec.stage) * size);
    s->columns = take(&total, 8 * p->n_block);
    s->total = total;
}

int64_t product_k_rows(const struct product_plan *p) {
    return p->taps > 1 ? p->k_block * p->run : p->k_block;
}

int64_t product_a_row(const struct product_plan *p) {
    int64_t rows = product_k_rows(p);
    return p->a_mode == A_ROWS ? round_up(rows, p->lanes) + p->lanes : rows;
}

int64_t product_m_rows(const struct product_plan *p) {
    return round_up(p->m_block, p->rows);
}

int64_t product_m_blocks(const struct product_plan *p) {
    return (p->m + p->m_block - 1) / p->m_block;
}

int64_t product_last_rows(const struct product_plan *p) {
    return p->m - (product_m_blocks(p) - 1) * p->m_block;
}

int64_t product_n_blocks(const struct product_plan *p) {
    return (p->n + p->n_block - 1) / p->n_block;
}

/* A matrix times a column is a row times its transpose. */
static void swap_operands(struct product_plan *p) {
    struct product_spec *s = &p->spec;
    enum element_type type = s->a_type;
    int64_t offset = s->a_offset;
    s->a_type = s->b_type;
    s->b_type = type;
    s->a_offset = s->b_offset;
    s->b_offset = offset;
    struct product_dims dims = s->m;
    s->m = s->n;
    s->n = dims;
    struct product_dims *all[] = {&s->batch, &s->m, &s->n, &s->k};
    for (int i = 0; i < 4; i++)
        for (int d = 0; d < all[i]->count; d++) {
            struct product_dim *dim = &all[i]->v[d];
            int64_t step = dim->a;
            dim->a = dim->b;
            dim->b = step;
        }
    p->swapped = true;
}

static int64_t innermost_c(const struct product_dims *dims) {
    for (int i = dims->count - 1; i >= 0; i--)
        if (dims->v[i].size > 1) return dims->v[i].c;
    return 0;
}

/* A column, or a C whose columns lie as rows do elsewhere (features before positions). */
static bool is_better_swapped(const struct product_spec *spec) {
    if (spec->stage.when != STAGE_NEVER || product_dims_size(&spec->m) == 1) return false;
    if (product_dims_size(&spec->n) == 1) return true;
    return !spec->n_cut && innermost_c(&spec->m) == 1 && innermost_c(&spec->n) != 1;
}

/* Brings the dimensions into the order and the number that plans are made for. */
static void take_sizes(struct product_plan *p) {
    struct product_dims *all[] = {&p->spec.batch, &p->spec.m, &p->spec.n, &p->spec.k};
    int64_t *sizes[] = {&p->batch, &p->m, &p->n, &p->k};
    sort_by_a(&p->spec.k);
    for (int i = 0; i < 4; i++) {
        merge(all[i]);
        *sizes[i] = product_dims_size(all[i]);
    }
    if (p->spec.n_cut) p->n = p->spec.n_cut;
}

/* Few rows, or few columns and the operands in each other's place. */
static bool plan_vector(struct product_plan *p, const struct cpu_target *target) {
    if (product_plan_vector(p, target)) return true;
    struct product_plan other = *p;
    if (p->swapped || p->spec.n_cut || p->n >= p->m) return false;
    swap_operands(&other);
    take_sizes(&other);
    if (!product_plan_vector(&other, target)) return false;
    *p = other;
    return true;
}

/* What product_plan_few leaves open. */
static void complete_few(struct product_plan *p) {
    enum { UNITS = 8 };
    p->run = p->spec.k.v[p->spec.k.count - 1].size;
    p->taps = p->k / p->run;
    p->k_block = p->taps > 1 ? p->taps : p->run;
    p->k_blocks = 1;
    p->n_block = p->n;
    choose_m_block(p, clamp(UNITS / clamp(p->batch, 1, UNITS), 1, UNITS));
    p->m_chunk = p->m_block;
    p->n_outermost = !depends_on_batch(&p->spec.batch, PRODUCT_B);
    p->shares_b = p->keeps_sums = true;
    p->units = p->batch * product_m_blocks(p);
    struct product_scratch layout;
    product_layout(p, &layout);
    p->scratch = layout.total;
}

void product_plan_make(struct product_plan *p, const struct cpu_target *target,
                       const struct product_spec *spec, bool finishes) {
    *p = (struct product_plan){.spec = *spec, .finishes = finishes, .method = PRODUCT_ABSENT};
    p->type = sum_type(spec);
    if (!product_spec_has_code(spec)) return;
    take_sizes(p);
    if (product_plan_few(p, target)) {
        complete_few(p);
        return;
    }
    if (is_better_swapped(spec)) {
        swap_operands(p);
        take_sizes(p);
    }
    p->method = PRODUCT_TILES;
    bool staged = spec->stage.when != STAGE_NEVER;
    if (!staged && (product_plan_small(p, target) || plan_vector(p, target))) return;
    const struct product_stage *stage = &spec->stage;
    int64_t rows = stage->when == STAGE_UNIT ? p->m / stage->count * stage->band : p->m;
    struct matmul_tile tile = matmul_tile_choose(target, p->type, rows, p->n);
    p->rows = tile.rows;
    p->vectors = tile.vectors;
    p->lanes = tile.lanes;
    choose_pairs(p, target);
    choose_a_mode(p);
    choose_k_block(p, target);
    choose_b_mode(p, target);
    p->m_block = p->m_chunk = p->m;
    choose_units(p, target);
    bool narrow = !same_bits(spec->c_type, p->type);
    int64_t m_step, n_step;
    bool linear = product_dims_linear(&p->spec.m, PRODUCT_C, &m_step) &&
                  product_dims_linear(&p->spec.n, PRODUCT_C, &n_step) && n_step == 1;
    p->keeps_sums = (finishes || narrow || !linear) && p->k_blocks > 1;
    struct product_scratch layout;
    product_layout(p, &layout);
    p->scratch = layout.total;
}
