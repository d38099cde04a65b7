/* Debug information: which HLO instruction machine code is from, and where in the user's program
 * that one came from. In a debugger's words, code of `add.5` is inlined in the Python lines of its
 * metadata, those in the kernel that the compiler made of it and its neighbours:
 *     add.5 at model.hlo:12; f at model.py:33; fusion.3.kernel at model.hlo:40; model. */
#ifndef BACKEND_CPU_DEBUG_INFO_H
#define BACKEND_CPU_DEBUG_INFO_H

#include "backend/cpu/gen.h"

/* Starts the module's debug information and sets g->debug; `file` is the HLO text's name, and
 * `directory` where relative names start. */
void debug_start(struct cpu_gen *g, const char *file, const char *directory);
/* To be called once all code is there; without debug_start, nothing. */
void debug_finish(struct cpu_gen *g);

/* What was in force before a change of place, for debug_restore. */
struct debug_place {
    LLVMMetadataRef base, location;
};

/* All three do nothing without debug_start. What is emitted from here on, up to debug_restore:
 * is the body of `function`, made for an instruction (NULL: for the entry computation); */
struct debug_place debug_function(struct cpu_gen *g, LLVMValueRef function,
                                  const struct hlo_instr *instr);
/* is part of the body being emitted, at the line of an instruction; */
struct debug_place debug_line(struct cpu_gen *g, const struct hlo_instr *instr);
/* computes an instruction in the middle of that. */
struct debug_place debug_enter(struct cpu_gen *g, const struct hlo_instr *instr);
void debug_restore(struct cpu_gen *g, struct debug_place place);

#endif
