/* The lowerings of lowering.c's table, and what they share. */
#ifndef BACKEND_CPU_LOWERING_H
#define BACKEND_CPU_LOWERING_H

#include "backend/cpu/gen.h"

/* Says where the operands' leaves are. */
void gen_bind_operands(struct cpu_gen *g, const struct cpu_kernel *k);
/* The same for a fusion's parameters, or the operands of any other instruction; the root of the
 * fused computation, or the instruction itself. */
const struct hlo_instr *gen_enter_kernel(struct cpu_gen *g, const struct cpu_kernel *k);
/* Copies a whole array, unless it is the same memory. */
void gen_copy(struct cpu_gen *g, const struct shape *shape, LLVMValueRef to, LLVMValueRef from);

/* size * part / parts: where a part of a dimension begins. Without overflow for any array. */
LLVMValueRef gen_part(struct cpu_gen *g, int64_t size, int64_t parts, LLVMValueRef part);

/* Dimension `dim` of the results is so short that its elements are written out one by one. */
bool loop_kernel_writes_out(const struct hlo_instr *instr, int dim);
int64_t loop_kernel_units(const struct hlo_instr *instr);
void loop_kernel_emit(struct cpu_gen *g, struct cpu_kernel *k);
void update_kernel_emit(struct cpu_gen *g, struct cpu_kernel *k);

int64_t row_kernel_units(const struct hlo_instr *instr);
int64_t row_kernel_scratch(const struct hlo_instr *instr);
void row_kernel_emit(struct cpu_gen *g, struct cpu_kernel *k);

bool window_kernel_scans(const struct hlo_instr *instr); /* running sums, in linear time */
bool window_kernel_match(const struct hlo_instr *instr);
int64_t window_kernel_units(const struct hlo_instr *instr);
void window_kernel_emit(struct cpu_gen *g, struct cpu_kernel *k);

bool window_rows_match(const struct hlo_instr *instr);
int64_t window_rows_units(const struct hlo_instr *instr);
void window_rows_emit(struct cpu_gen *g, struct cpu_kernel *k);

bool concat_kernel_match(const struct hlo_instr *instr);
int64_t concat_kernel_units(const struct hlo_instr *instr);
void concat_kernel_emit(struct cpu_gen *g, struct cpu_kernel *k);

bool transpose_kernel_match(const struct hlo_instr *instr);
int64_t transpose_kernel_units(const struct hlo_instr *instr);
int64_t transpose_kernel_scratch(const struct hlo_instr *instr);
void transpose_kernel_emit(struct cpu_gen *g, struct cpu_kernel *k);

int64_t scatter_units(const struct hlo_instr *instr);
void scatter_emit(struct cpu_gen *g, struct cpu_kernel *k);

/* Read-only memory with these numbers; an array on the stack of pointers to the leaves of the
 * result, then of the operands. */
LLVMValueRef gen_numbers(struct cpu_gen *g, int count, const int64_t *values);
LLVMValueRef gen_pointers(struct cpu_gen *g, const struct cpu_kernel *k);

bool rng_match(const struct hlo_instr *instr);
void rng_emit(struct cpu_gen *g, struct cpu_kernel *k);

bool select_scatter_match(const struct hlo_instr *instr);
int64_t select_scatter_units(const struct hlo_instr *instr);
void select_scatter_emit(struct cpu_gen *g, struct cpu_kernel *k);

/* Custom calls of the user's functions; those of the options are bound to their instructions
 * first. */
struct cpu_options;
void cpu_bind_custom_calls(struct hlo_module *module, const struct cpu_options *options);
bool custom_call_match(const struct hlo_instr *instr);
int64_t custom_call_scratch(const struct hlo_instr *instr);
void custom_call_emit(struct cpu_gen *g, struct cpu_kernel *k);

/* An element of a bitcast-convert between any two types. */
LLVMValueRef gen_bitcast_convert(struct cpu_gen *g, const struct hlo_instr *instr,
                                 const LLVMValueRef *index);

#endif
