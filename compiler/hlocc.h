/* hlocc as a library: HLO text in, results or native code out. No global state: any number of
 * programs at once, on any threads. One program is for one thread at a time, but for hlocc_run:
 * once it is prepared, several threads may run it at once. `pkg-config --cflags --libs hlocc` says
 * how to compile and link; README and docs/user-guide.md have whole programs. */
#ifndef HLOCC_H
#define HLOCC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hlocc_program;

/* HLOCC_INTERP: the evaluator; slow, and the definition of what is right. HLOCC_TPU: an emulator.
 */
enum hlocc_target { HLOCC_INTERP, HLOCC_CPU, HLOCC_TPU };

/* How programs are compiled; what hlocc_options_init leaves is what the command line's defaults
 * are. Texts are read by the call that gets the options, and not kept. */
struct hlocc_options {
    enum hlocc_target target;
    int opt_level;                /* 0 to 3 */
    int threads;                  /* that a run may use; 0: the cores here */
    const char *mcpu, *triple;    /* as for `hlocc compile`; NULL: this machine's */
    const char *chip;             /* of a TPU: v2, v3, v4, v5e or a JSON file; NULL: v2 */
    const char *matmul_precision; /* default, high, highest; NULL: the target's own */
    uint64_t seed;                /* of rng instructions */
};

void hlocc_options_init(struct hlocc_options *options);

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

/* The program as HLO text, as it was parsed, in malloc memory. */
char *hlocc_print(const struct hlocc_program *program);

/* Makes `function` what the custom calls with the target `name` run, on the CPU, from the next
 * hlocc_prepare on; see custom_call.h. 0, or -1 without memory. The name is copied. */
struct hlocc_custom_call;
int hlocc_register(struct hlocc_program *program, const char *name,
                   int (*function)(const struct hlocc_custom_call *call));

/* ---- in process ---- */

/* Optimises and compiles for the target; 0, or -1 with messages. A program that was prepared before
 * is prepared anew: no run of it may be under way. */
int hlocc_prepare(struct hlocc_program *program, enum hlocc_target target, char **messages);
int hlocc_prepare_with(struct hlocc_program *program, const struct hlocc_options *options,
                       char **messages);
/* Runs a prepared program: inputs are read, outputs written, each of the type's bytes. An output
 * may be the memory of an input only where the program's input_output_alias says so. 0, or -1 with
 * messages. */
int hlocc_run(struct hlocc_program *program, const void *const *inputs, void *const *outputs,
              char **messages);

/* ---- to take away ---- */

enum hlocc_output { HLOCC_HLO, HLOCC_LLVM_IR, HLOCC_LLVM_BITCODE, HLOCC_ASSEMBLY, HLOCC_OBJECT };

/* Compiles for the CPU: *data becomes the file's bytes, *size of them, in malloc memory. `symbol`
 * is the C name of the function (hlocc_header declares it). HLOCC_HLO is the optimised program as
 * text. 0, or -1 with messages. */
int hlocc_compile(struct hlocc_program *program, const char *symbol, enum hlocc_output kind,
                  const struct hlocc_options *options, void **data, size_t *size, char **messages);
/* The C header of the compiled program, as text in malloc memory; NULL without memory. */
char *hlocc_header(const struct hlocc_program *program, const char *symbol);

#ifdef __cplusplus
}
#endif
#endif
