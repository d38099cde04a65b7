/* Trains a network through the interface of a compiled step: results are the next step's inputs.
 *   train CASE_DIR LOSSES
 * LOSSES: "LOSS ACCURACY" lines, one a step, that each step's loss must follow within a hundredth.
 */
#include <math.h>

#include "arrays.h"
#include "step.h"

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    struct arrays in, out;
    read_arrays(&in, argv[1], "in", step_input_count);
    read_arrays(&out, argv[1], "out", step_output_count); /* for their sizes */
    int state = step_output_count - 2, steps = 0, bad = 0;
    void *workspace = new_workspace(step_workspace_size);
    FILE *losses = fopen(argv[2], "r");
    double want, accuracy, first = 0, last = 0, worst = 0;
    while (losses && fscanf(losses, "%lf %lf", &want, &accuracy) == 2) {
        int status = step((const void *const *)in.data, out.data, workspace);
        if (status) {
            fprintf(stderr, "step: error %d\n", status);
            return 1;
        }
        last = *(const float *)out.data[state];
        if (steps++ == 0) first = last;
        double error = fabs(last - want) / want;
        if (error > worst) worst = error;
        if (!(error <= 1e-2)) {
            printf("step %d: loss %.9g, XLA's %.9g\n", steps, last, want);
            bad = 1;
        }
        for (int i = 0; i < state; i++) { /* in and out of a state have one size */
            void *old = in.data[i];
            in.data[i] = out.data[i];
            out.data[i] = old;
        }
    }
    printf("%d steps: loss from %.6f to %.6f, at most %.2g off XLA's\n", steps, first, last, worst);
    if (losses) fclose(losses);
    free_arrays(&in);
    free_arrays(&out);
    free(workspace);
    return bad || steps == 0 || !(last < first / 10);
}
