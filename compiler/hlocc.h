/* hlocc as a library: HLO text in, results out. No global state: any number of programs at once, on
 * any threads; one program's run may be called from several threads at once after hlocc_prepare.
 * Link with libhlocc.a, libhlocc_rt.a, LLVM, cJSON and libm. */
#ifndef HLOCC_H
#define HLOCC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hlocc_program;

enum hlocc_target { HLOCC_INTERP, HLOCC_CPU };

struct hlocc_array_type {
    const char *element_type; /* "f32"; as in HLO text */
    int rank;
    const int64_t *dims; /* rank of them; live as long as the program */
    size_t bytes;        /* row-major, dense; elements of under 8 bits take a byte each */
};

const char *hlocc_version(void);

/* Where a function takes `messages` and it is not NULL, *messages becomes the diagnostics as text
 * in malloc memory, for the caller to free, or NULL where there is nothing to say. */

/* Parses and verifies; NULL where the text has errors. `name` stands before the messages. */
struct hlocc_program *hlocc_parse(const char *name, const char *text, size_t size, char **messages);
void hlocc_free(struct hlocc_program *program); /* NULL is fine */

/* Flat: one array a leaf of the parameters and of the result, in order. */
int hlocc_input_count(const struct hlocc_program *program);
int hlocc_output_count(const struct hlocc_program *program);
/* An out-of-range index gives element_type NULL. */
struct hlocc_array_type hlocc_input_type(const struct hlocc_program *program, int index);
struct hlocc_array_type hlocc_output_type(const struct hlocc_program *program, int index);

/* The program as HLO text, in malloc memory. */
char *hlocc_print(const struct hlocc_program *program);

/* Makes `function` what the custom calls with the target `name` run, on the CPU, from the next
 * hlocc_prepare on; see custom_call.h. 0, or -1 without memory. The name is copied. */
struct hlocc_custom_call;
int hlocc_register(struct hlocc_program *program, const char *name,
                   int (*function)(const struct hlocc_custom_call *call));

/* Optimises and compiles for the target, once; 0, or -1 with messages. */
int hlocc_prepare(struct hlocc_program *program, enum hlocc_target target, char **messages);
/* Runs a prepared program: inputs are read, outputs written, each of the type's bytes. 0 or -1. */
int hlocc_run(struct hlocc_program *program, const void *const *inputs, void *const *outputs,
              char **messages);

#ifdef __cplusplus
}
#endif
#endif
