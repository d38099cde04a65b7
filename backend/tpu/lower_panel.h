/* A kernel that multiplies panels, in the making: what lower_panel.c, lower_panel_finish.c and
 * lower_panel_window.c share. */
#ifndef BACKEND_TPU_LOWER_PANEL_H
#define BACKEND_TPU_LOWER_PANEL_H

#include "backend/tpu/panel.h"

enum { PANEL_FLAG_A = 8, PANEL_FLAG_B, PANEL_FLAG_EXTRA, PANEL_FLAG_RESULT };
enum { PANEL_MOST_RESULTS = 8, PANEL_MOST_EXTRAS = 8 };

/* A block of a matrix in VMEM, or the matrix itself where it lives there: row of the tile at
 * (batch, group, tile) = row + batch * batch_step + group * group_step + tile * tile_step. */
struct panel {
    struct matrix matrix;
    bool direct; /* it is the matrix itself */
    int tag;
    int64_t row, rows; /* first row, and rows of a buffer */
    int buffers;
    int32_t batch_step, group_step, tile_step;
};

/* Arrays of the result's dims: other operands of what is fused, and results. */
struct beside {
    struct panel panel;
    const struct hlo_instr *instr; /* an operand of the kernel; a result: the one inside */
};

struct paneler {
    struct job job;
    struct panel_plan plan;
    struct panel a, raw, b, c; /* raw: A before it is turned or folded */
    struct panel sums;         /* of a gradient, before they are turned to C */
    struct beside extra[PANEL_MOST_EXTRAS], result[PANEL_MOST_RESULTS];
    int nextra, nresult;
    bool passes;   /* over each block of C before it leaves */
    bool is_fused; /* the kernel is a fusion of the product with other work */
    int64_t steps;
    int64_t out_groups, out_tiles; /* of a block of C */
    /* Scalars that change as the program goes on. */
    treg at[PANEL_AXES], next[PANEL_AXES]; /* the block in use, and the one after it */
    treg a_buffer, b_buffer, c_buffer;     /* in use */
    treg a_fresh, b_fresh;                 /* 1: the block in use has just been loaded */
    treg left, done;                       /* steps after this one; blocks of C that are done */
};

/* A DMA of tiles: counts, and rows of memory in the matrix and in VMEM from one to the next. */
struct panel_move {
    struct sx count[TPU_DMA_LEVELS];
    int32_t home[TPU_DMA_LEVELS], here[TPU_DMA_LEVELS];
};
/* From row `home` of the matrix's memory to row `row` of VMEM (`load`), or back. */
void panel_move(struct paneler *x, const struct matrix *m, const struct panel_move *move,
                struct sx home, struct sx row, bool load, int flag, treg predicate);
/* First place of a block along an axis. */
struct sx panel_first(struct paneler *x, const treg *block, int axis);
/* Places from `first` on, `size` of them but for the last ones of all `total`. */
struct sx panel_places_left(struct kernel *k, struct sx first, int64_t size, int64_t total);
/* Row of a buffer, or of the matrix where it is used directly: the block's first. */
struct sx panel_block_row(struct paneler *x, const struct panel *panel, treg buffer,
                          struct sx batch, struct sx group, struct sx tile);

/* ---- lower_panel.c ---- */

struct region { /* of a matrix: its first places, and how many */
    struct sx batch, group, tile;
    struct sx batches, groups, tiles;
};
/* The region of a block of a matrix whose groups and tiles are along these axes. */
struct region panel_region_of(struct paneler *x, const treg *block, const struct matrix *m,
                              int group_axis, int tile_axis);
/* Starts moving a region between the matrix and a buffer that begins at `row`. */
void panel_move_region(struct paneler *x, const struct panel *panel, const struct region *region,
                       struct sx row, bool load, int flag, treg predicate);
void panel_wait(struct paneler *x, int flag, int count, treg predicate);
/* The panel is the matrix itself, in VMEM. */
void panel_use_directly(struct panel *panel);
/* Buffers for blocks of `tiles` times `groups` times batches: tile by tile, so that groups follow
 * each other. False where they do not fit. */
bool panel_make(struct paneler *x, struct panel *panel, int64_t rows, int buffers, int64_t groups,
                int32_t tile);

/* ---- lower_panel_finish.c ---- */

/* Finds the kernel's results and other operands. False where they are not all in the product's
 * tiles. */
bool panel_find_fused(struct paneler *x, const struct hlo_instr *kernel);
/* Starts bringing what is read as a whole (job_wait). False where it would not all stay in VMEM.
 */
bool panel_stage_others(struct paneler *x, const struct hlo_instr *kernel);
/* Rows of memory that a tile of the result takes in what stands beside it. */
int64_t panel_extra_rows(const struct paneler *x);
bool panel_make_besides(struct paneler *x);
void panel_load_extras(struct paneler *x); /* for the block in use */
void panel_finish_block(struct paneler *x);
int panel_sends(const struct paneler *x); /* DMAs that take a block's results away */

/* ---- lower_panel_window.c ---- */

void panel_start_windows(struct paneler *x); /* before anything is loaded */
void panel_load_band(struct paneler *x, const treg *block, treg buffer, treg predicate);
void panel_load_filter(struct paneler *x, const treg *block, treg buffer, treg predicate);
/* Zeros where the band in use lies past the input's edges. */
void panel_clear_edges(struct paneler *x);
/* The band in use, its places of a row of the window side by side. */
void panel_fold_band(struct paneler *x);
/* Mask of rows of weights that count in push `push` of a folded tile of k; 0: all. */
treg panel_fold_mask(struct paneler *x, int push);
/* Of a place of k: rows of VMEM from the band's first, and features that count in its tile. */
struct sx panel_window_offset(struct paneler *x, struct sx k);
struct sx panel_window_limit(struct paneler *x, struct sx k);

/* ---- lower_panel_gradient.c ---- */

void panel_start_gradient(struct paneler *x); /* before anything is loaded */
void panel_load_images(struct paneler *x, bool input, const treg *block, treg buffer,
                       treg predicate);
/* Zeros past the lines' ends in the images in use. */
void panel_clear_ends(struct paneler *x, bool input);
/* Of a place of n: rows of VMEM from the first of the input in use. */
struct sx panel_gradient_offset(struct paneler *x, struct sx n);
void panel_turn_sums(struct paneler *x);

#endif
