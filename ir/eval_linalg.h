/* Matrix routines shared by HLO's operations and LAPACK's custom calls. */
#ifndef IR_EVAL_LINALG_H
#define IR_EVAL_LINALG_H

#include <complex.h>

#include "ir/eval_internal.h"

struct solve_options {
    bool left, lower, unit, transpose, conjugate;
};

/* All elements of an array; NULL with an error. Free with free(). */
double complex *eval_load_complex(struct eval *e, const struct hlo_instr *instr,
                                  const struct literal *in);
void eval_store_complex(struct literal *out, const double complex *in);
/* Factors one n x n matrix in place; only the chosen triangle is read. False, and NaN everywhere,
 * where it is not positive definite. */
bool eval_cholesky_one(double complex *a, int64_t n, bool lower);
struct literal *eval_solve(struct eval *e, const struct hlo_instr *instr, struct literal **ops,
                           struct solve_options options);
/* Custom calls "lapack_*_ffi"; NULL without an error where the routine is not known. */
struct literal *eval_lapack(struct eval *e, const struct hlo_instr *instr, const char *routine,
                            struct literal **ops, bool *known);

#endif
