/* Products of two arrays, C[b, m, n] = sum over k of A[b, m, k] * B[b, k, n], as LLVM IR. Each of
 * b, m, n and k stands for any number of dimensions, each with its own stride in A, B and C: dots
 * in all their orientations and convolutions without padding are such products. After Goto and van
 * de Geijn, Anatomy of High-Performance Matrix Multiplication, 2008: panels of B are packed, tiles
 * of C are computed in registers (matmul_kernel.h), k is cut to what caches hold. A is read where
 * it is, unless it has to be converted or lies badly. */
#ifndef BACKEND_CPU_MATMUL_H
#define BACKEND_CPU_MATMUL_H

#include "backend/cpu/builder.h"
#include "backend/cpu/target_data.h"

enum { PRODUCT_MAX_DIMS = 12 };

struct product_dim {
    int64_t size;
    int64_t a, b, c; /* elements from one to the next in A, B and C; 0 where it has no such dim */
};

struct product_dims {
    int count;
    struct product_dim v[PRODUCT_MAX_DIMS]; /* outermost first */
};

enum { STAGE_MAX_RANK = 4 };

/* When A is first copied into scratch memory, with the zeros around and between its elements that a
 * convolution sees: for a unit of work (whose m is then whole rows of dimension 0 of the output),
 * or for a block of k (which is then some rows of dimension 0 of the window). */
enum stage_when { STAGE_NEVER, STAGE_UNIT, STAGE_BLOCK };

/* The copy is row-major over the positions of a window's elements in the padded and dilated input,
 * channels innermost. Strides are those of the input. */
struct product_stage {
    enum stage_when when;
    int rank;
    struct stage_dim {
        int64_t size, stride; /* of the input */
        int64_t low, dilate;  /* position 0 is `low` before it; elements are `dilate` apart */
        int64_t extent;       /* positions in the copy (of one band, for dimension 0) */
    } dim[STAGE_MAX_RANK];
    int64_t channels, channel_stride;
    /* Dimension 0 in bands: of the output (UNIT) or of the window (BLOCK). */
    int64_t count, band, step; /* rows in all, rows a band, positions from row to row */
    /* BLOCK: images that are added up, and steps of images and of rows of the window in A and B. */
    int64_t images, image_a, image_b, row_b;
};

struct product_spec {
    enum element_type a_type, b_type, c_type;
    int64_t a_offset, b_offset; /* elements from the pointers to the first of A and B */
    struct product_dims batch, m, n, k;
    int64_t n_cut; /* of the places of n, those that exist in C; 0: all */
    /* Where A is staged, the strides of m and k in A are those of the copy, those of batch of the
     * input; and k is that of one whole block. */
    struct product_stage stage;
};

enum product_method {
    PRODUCT_TILES,  /* register tiles */
    PRODUCT_SUMS,   /* few rows of A, rows of B added up: B is [k, n] */
    PRODUCT_DOTS,   /* few rows of A, dot products: B is [n, k] */
    PRODUCT_FEW,    /* a few columns, vectors along k */
    PRODUCT_SMALL,  /* a few elements, many times */
    PRODUCT_ABSENT, /* no code here for this: element types, too many dimensions */
};

/* How A reaches the kernel. */
enum product_a_mode { A_IN_PLACE, A_ROWS, A_PANELS };

/* How B does. */
enum product_b_mode {
    B_PACKED, /* copied to panels, a tile's columns wide */
    B_PANELS, /* it lies in such panels, each with all of k */
    B_ROWS,   /* its rows are read where they are */
};

/* A product and how to compute it. */
struct product_plan {
    struct product_spec spec; /* neighbouring dimensions merged, sizes of 1 gone */
    enum product_method method;
    bool swapped;           /* spec has A and B, m and n, in each other's place */
    enum element_type type; /* of the sums */
    /* Where not TYPE_INVALID, A and B are of this type for the kernel (2 bytes), and k counts pairs
     * of elements, which lie side by side. */
    enum element_type pair;
    enum cpu_pairs how_pairs;
    bool odd;                 /* the last pair has one element */
    bool finishes;            /* results go through product_code.finish */
    int64_t batch, m, n, k;   /* sizes */
    int rows, vectors, lanes; /* tile */
    int64_t run, taps;        /* k as runs of equal steps in A */
    int64_t k_block;          /* of run where taps is 1, of taps otherwise */
    int64_t k_blocks;
    int64_t m_block, n_block; /* a unit of work */
    /* The last low_tiles tiles of units of as many rows as the last one have low_rows rows, the
     * others `rows`: no row is computed in vain. */
    int low_rows;
    int64_t low_tiles;
    int64_t m_chunk; /* rows of A that are packed at a time */
    enum product_a_mode a_mode;
    enum product_b_mode b_mode;
    bool packs_first; /* whole panels of B are packed by the kernels that read them first */
    bool one_panel;   /* and each is done with before the next */
    bool shares_b;    /* all of k is packed, for the blocks of rows that follow each other */
    bool n_outermost; /* units go through the batch for one block of columns after the other */
    bool keeps_sums;  /* partial sums are kept in scratch memory, not in C */
    int64_t units;    /* independent units of work */
    int64_t scratch;  /* bytes, to be aligned to 64, for one thread */
};

/* Whether there is code for the element types and sizes. */
bool product_spec_has_code(const struct product_spec *spec);
/* Decides how to compute the product. */
void product_plan_make(struct product_plan *plan, const struct cpu_target *target,
                       const struct product_spec *spec, bool finishes);
/* Columns of the panels that B may come in, so that it need not be packed each time; 0 where that
 * would gain nothing. A panel has all of k in order, k's dimensions as in plan->spec. */
int product_panel_columns(const struct product_plan *plan);

/* Receives the finished sum (of plan->type, in register form) for one element of C, given by its
 * linear batch, m and n numbers, and stores what comes of it. Called while emitting the innermost
 * loop over n. */
typedef void product_finish(void *data, LLVMValueRef sum, LLVMValueRef batch, LLVMValueRef m,
                            LLVMValueRef n);

enum { PRODUCT_MOST_TOUCHED = 4 };

struct product_code {
    LLVMValueRef a, b, c;    /* pointers; c may be NULL with finish */
    LLVMValueRef scratch;    /* plan->scratch bytes, aligned to 64 */
    LLVMValueRef begin, end; /* i64: the units to compute, begin < end */
    product_finish *finish;  /* NULL: convert to c_type and store */
    void *data;
    /* Arrays that lie as C does, which finish reads or writes where C has the sum: a tile's
     * elements are asked for before it is computed. */
    int ntouched;
    LLVMValueRef touched[PRODUCT_MOST_TOUCHED];
};

void product_emit(struct cpu_builder *b, const struct cpu_target *target,
                  const struct product_plan *plan, const struct product_code *code);

#endif
