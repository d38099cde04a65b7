/* Secular equations: the eigenvalues of diag(d) + rho z z^T, or the singular values of a matrix of
 * which z is the first row and d, with d[0] = 0, the rest of the diagonal (then rho = 1 is usual).
 * Gu and Eisenstat, A divide-and-conquer algorithm for the symmetric tridiagonal eigenproblem,
 * 1995; the same for the bidiagonal SVD, 1995; Li, Solving secular equations stably and
 * efficiently, 1993. */
#ifndef RUNTIME_CPU_SECULAR_H
#define RUNTIME_CPU_SECULAR_H

#include <stdbool.h>
#include <stdint.h>

enum { SECULAR_LANES = 4 };

/* Arrays have room for count rounded up to SECULAR_LANES numbers. */
struct secular {
    int64_t count;
    bool squares;     /* poles are the squares of d, roots those of singular values */
    double rho;       /* above 0 */
    double tolerance; /* relative to the terms of the equation */
    double *d;        /* ascending, apart from each other */
    double *z;        /* none zero */
    /* Results: root i is pole `origin[i]`, the nearest, plus offset[i]. */
    int64_t *origin;
    double *offset;
    double *fitted; /* the z of which the roots are exact, but for a common factor */
    double *pole;   /* room */
};

/* Finds the roots, then `fitted`. */
void secular_solve(struct secular *s);
/* Root i itself: an eigenvalue or a singular value. */
double secular_value(const struct secular *s, int64_t i);
/* line[j] = fitted[j] / (pole j - root i): the eigenvector of root i, or the right singular vector,
 * but for its length. */
void secular_vector(const struct secular *s, int64_t i, double *line);

#endif
