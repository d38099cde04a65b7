/* Products on the matrix units: dots and convolutions as C[b][m][n] = sum over k of A[b][m][k] *
 * B[b][k][n]. Each of m, n and k numbers the places of some dimensions, the last of which is
 * padded, so that a lane tile is whole segments of it and a group of 8 rows does not leave it. */
#ifndef BACKEND_TPU_PRODUCT_H
#define BACKEND_TPU_PRODUCT_H

#include "backend/tpu/lower.h"

/* Parts of an axis. Of a dot: the i-th free or contracting dimension. Of a convolution: 0 is the
 * batch (m), the feature (n, k), 1 + s the s-th spatial dimension (m, k). */
struct axis {
    int count;
    int part[SHAPE_MAX_RANK]; /* the last one is minor */
    int64_t size[SHAPE_MAX_RANK];
    int64_t padded; /* size of the minor part with its padding */
    int64_t outer;  /* product of the others */
    int64_t total;  /* outer * padded */
};

enum { AXIS_M, AXIS_N, AXIS_K, AXES };

struct product {
    const struct hlo_instr *instr;
    int64_t batches;
    struct axis axis[AXES];
    bool swapped;            /* operand 0 gives n, operand 1 gives m */
    int parts;               /* of f32 operands: 1, 2 or 3; of integers: bytes */
    bool integer;            /* operands and result, of 32 bits at most */
    bool a_turned, b_turned; /* the operand's lanes are along m, along k */
};

/* False where the matrix units are not used: complex numbers, 64-bit integers, many small groups.
 */
bool product_find(struct product *p, const struct hlo_instr *instr,
                  const struct tpu_compile_options *options);
/* A place of an axis: the number of its outer parts, and its minor part. */
struct place_of_axis {
    struct ix outer, minor;
};
/* The numbers of a place's parts, by part; *inside (a mask, 0: all) loses what is padding. */
void product_axis_parts(struct kernel *k, const struct axis *axis, struct place_of_axis at,
                        struct ix *parts, treg *inside);
/* Index into the operand that gives `free` (AXIS_M or AXIS_N) of the element at the parts `at` of
 * that axis and `sum` of k; *inside loses what does not exist. */
void product_operand_index(struct kernel *k, const struct product *p, int free, struct ix batch,
                           const struct ix *at, const struct ix *sum, struct ix *index,
                           treg *inside);
int product_operand(const struct product *p, int free);
/* The batch and the places, as numbers, of m and n that a place of the result is. */
void product_result_place(struct kernel *k, const struct product *p, const struct ix *index,
                          struct ix *batch, struct ix *m, struct ix *n);

/* Dimension of an operand, or of the result, that a part of an axis is; -1: none. Of a
 * convolution's input, the dimension that the part goes over. */
int product_operand_dim(const struct product *p, int operand, int axis, int part);
int product_result_dim(const struct product *p, int axis, int part);

/* Whether it is one of those that lower_matmul takes where VMEM has room for its slabs. */
bool product_is_matmul(const struct product *p, const struct tpu_chip *chip);
/* Large products of whole tiles; *taken: it was one. False with an error in diag. */
bool lower_matmul(struct lower *lower, const struct product *p, bool *taken);
/* Products of any size whose arrays are matrices in tiles (panel.h); `kernel` is the product or a
 * fusion with it. As lower_matmul. */
bool lower_panel(struct lower *lower, const struct hlo_instr *kernel, const struct product *p,
                 bool *taken);

#endif
