/* Products of any size, block by block: which arrays are matrices in tiles, so that whole registers
 * of them are what the matrix units take, and how such a product is cut. */
#ifndef BACKEND_TPU_PANEL_H
#define BACKEND_TPU_PANEL_H

#include "backend/tpu/product.h"

enum { TILE_GROUPS = TPU_LANES / TPU_SUBLANES }; /* groups of rows along a tile of 128 */

/* An array as matrices in tiles of 8 rows x 128 lanes, one a batch. */
struct matrix {
    const struct hlo_instr *instr; /* whose array it is; of a fusion's result: the fusion */
    struct tarray array;
    int64_t groups, tiles; /* of 8 rows, of 128 lanes, in one batch */
    int32_t tile;          /* rows of memory of a tile: 8, or fewer of packed and of short ones */
};

/* The index space: batches, m in groups of 8, n and k in tiles of 128. */
enum { PANEL_BATCH, PANEL_M, PANEL_N, PANEL_K, PANEL_AXES };

/* A convolution: rows of A are those of a band of the input, padded with zeros, in VMEM; a place of
 * k is a place of the window and a tile of features. */
struct panel_window {
    bool used;
    int64_t images, in_h, in_w, out_h, out_w, features;
    struct window_dim h, w;
    int64_t image_block, row_block; /* in a block of m: images, or rows of results of one */
    int64_t band, pitch;            /* rows of an image in VMEM, and what each takes there */
    int64_t out_groups;             /* of 8 places in a row of results */
    /* Lanes that each place of a row of the window takes, where all of them are side by side in a
     * tile of k: A is then the band with such lanes, for each place of the results. 0: none. */
    int64_t fold;
};

/* The gradient of a convolution's filter: m is the outputs' features, n places of the window and
 * tiles of the input's features, k places of images; A the outputs' gradient and B the input. */
struct panel_gradient {
    bool used;
    int64_t images, in_h, in_w, out_h, out_w, places_h, places_w;
    struct window_dim h, w;
    int64_t image_block;  /* images of a block of k */
    int64_t pitch, image; /* rows of VMEM from one line, from one image to the next */
};

struct panel_plan {
    struct product p;
    struct matrix a, b, c;
    bool a_turned, b_turned; /* lanes of A are along m, those of B along k */
    int64_t k_size;          /* elements of k */
    int64_t total[PANEL_AXES];
    /* The cut. Within a block rows go in chunks of `chunk` groups through weights. */
    int64_t block[PANEL_AXES], blocks[PANEL_AXES];
    int64_t chunk, chunks;
    int units;
    bool split_m;  /* units share chunks of rows, or batches, not tiles of n */
    bool n_first;  /* blocks of n are the outer loop, those of m the inner one */
    bool ragged_k; /* the last tiles of k have lanes that do not count */
    struct panel_window window;
    struct panel_gradient gradient;
};

/* False where an operand or the result is no such matrix. `kernel` is the product itself or a
 * fusion with it. */
bool panel_find(struct panel_plan *plan, const struct hlo_instr *kernel, const struct product *p);
/* Where the memory plan has the arrays. False where they have no place. */
bool panel_locate(struct panel_plan *plan, struct lower *lower);
/* Chooses the cut that takes least time of those that fit into `rows` rows of VMEM; `extra`: rows
 * of memory that epilogues want for each tile of the result in a block. False where none fits. */
bool panel_cut(struct panel_plan *plan, const struct tpu_chip *chip, int64_t rows, int64_t extra);

/* Rows of memory that a block takes. */
struct panel_rows {
    int64_t a, turned, b, c;
};
struct panel_rows panel_rows(const struct panel_plan *plan);
/* Buffers of a block of A or of B: another comes while one is in use, unless one is all. */
int panel_buffers(const struct panel_plan *plan, bool of_a);
int panel_result_buffers(const struct panel_plan *plan);
/* Groups of a batch of A and of C in a block, whole chunks. */
int64_t panel_pitch(const struct panel_plan *plan);
/* Chunks of rows of a block, of all its batches. */
int64_t panel_turn_rows(const struct panel_plan *plan);
/* Tiles of n in a block, as many as units take together. */
int64_t panel_width(const struct panel_plan *plan);

/* panel_window.c: convolutions of f32 over one or two dimensions, not dilated in the input. */
bool panel_find_window(struct panel_plan *plan);
/* Tries all cuts of m: `try_cut` is asked for each. */
void panel_cut_windows(struct panel_plan *plan, const struct tpu_chip *chip,
                       void (*try_cut)(struct panel_plan *plan, void *user), void *user);
/* Rows of VMEM from a chunk's first group of 8 places to another; past the chunk: to the next. */
int32_t panel_window_row(const struct panel_plan *plan, int group);
/* Rows of VMEM of a band as it comes, and of a folded one. */
int64_t panel_window_band_rows(const struct panel_plan *plan);
int64_t panel_window_fold_rows(const struct panel_plan *plan);

/* lower_panel_gradient.c: the same for gradients of filters. Rows of a block of the input, or of
 * the outputs' gradient. */
bool panel_find_gradient(struct panel_plan *plan);
void panel_cut_gradients(struct panel_plan *plan,
                         void (*try_cut)(struct panel_plan *plan, void *user), void *user);
int64_t panel_gradient_plane(const struct panel_plan *plan, bool input);

#endif
