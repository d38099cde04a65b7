/* HLO to native code through LLVM. */
#ifndef BACKEND_CPU_CPU_H
#define BACKEND_CPU_CPU_H

#include "ir/hlo.h"
#include "runtime/cpu/custom_call.h"

enum cpu_output { CPU_LLVM_IR, CPU_LLVM_BC, CPU_ASM, CPU_OBJ };

/* A function that custom calls of its name run. */
struct cpu_function {
    const char *name;               /* a C name */
    hlocc_custom_function *address; /* NULL: linked in later, or found in the process */
};

struct cpu_options {
    int opt_level;      /* 0 to 3 */
    const char *triple; /* NULL: this machine's; an architecture alone stands for Linux on it */
    const char *mcpu;   /* "native": this machine's; NULL: the same, or the plain one of a triple
                           of another architecture */
    const char *symbol; /* C name of the entry */
    int max_threads;    /* 0: the cores here */
    /* Debug information: lines of the text that diag->file names, from this directory. NULL: none
     * of it. */
    const char *debug_directory;
    uint64_t seed; /* of rng and rng-get-and-update-state */
    bool in_parts; /* an object may come as several, made on several threads (for the JIT) */
    const struct cpu_function *functions;
    int nfunctions;
};

struct cpu_part {
    void *data;
    size_t size;
};

/* What the code does and what it needs; sizes in bytes. */
struct cpu_stats {
    int kernels, calls;         /* functions, and the places that call one */
    int64_t moved;              /* what these places read and write, each counted once */
    int64_t arena, least_arena; /* values that are alive at once: as placed, and the lower bound */
    int64_t scratch;            /* what kernels need for themselves, for all threads */
};

struct cpu_code {
    void *data; /* malloc memory */
    size_t size;
    struct cpu_part *more; /* further objects of the program, where they were asked for */
    int nmore;
    size_t workspace_size; /* bytes, to be aligned to 64: the arena, then scratch */
    struct cpu_stats stats;
};

void cpu_code_free(struct cpu_code *code);

/* Whether there is code for the options' triple and mcpu. False with an error in diag. */
bool cpu_check_machine(const struct cpu_options *options, struct diag *diag);
/* The machine that the options name, with all that code for it depends on; malloc memory, to be
 * compared with others only. NULL where memory is short. */
char *cpu_machine_text(const struct cpu_options *options);
/* How many threads the program has room for. */
int cpu_threads(const struct cpu_options *options);

/* Compiles the module's entry to
 *     int SYMBOL(const void *const *inputs, void *const *outputs, void *workspace);
 * with SYMBOL_workspace_size and SYMBOL_max_threads beside it. Inputs and outputs are row-major,
 * one a leaf. False with errors in diag: everything that has no code, at once. */
bool cpu_compile(struct hlo_module *module, const struct cpu_options *options,
                 enum cpu_output output, struct cpu_code *code, struct diag *diag);

typedef int cpu_entry(const void *const *inputs, void *const *outputs, void *workspace);
struct cpu_jit;

/* Makes an object (CPU_OBJ) callable in this process. NULL with an error in diag. */
struct cpu_jit *cpu_jit_new(const struct cpu_code *code, const char *symbol, struct diag *diag);
/* The same for a program that calls these functions; those without an address are looked up in the
 * process. */
struct cpu_jit *cpu_jit_new_with(const struct cpu_code *code, const char *symbol,
                                 const struct cpu_function *functions, int nfunctions,
                                 struct diag *diag);
cpu_entry *cpu_jit_entry(const struct cpu_jit *jit);
void cpu_jit_free(struct cpu_jit *jit); /* NULL is fine */

/* Whether the text can name a C function. */
bool cpu_is_symbol(const char *name);

#endif
