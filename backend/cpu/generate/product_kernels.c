/* Writes the kernels of f32 products for one level of x86-64 as an object of the runtime: they
 * depend on no program, and are half of the code of most products.
 *     product_kernels PROCESSOR SYMBOL OUT.o
 * SYMBOL is a table of functions (matmul_kernel_number); NULL where there is no such tile. */
#include <stdio.h>
#include <stdlib.h>

#include "backend/cpu/codegen.h"
#include "backend/cpu/machine.h"
#include "backend/cpu/matmul_kernel.h"

static void emit_table(struct cpu_builder *b, const struct cpu_target *target, const char *symbol) {
    LLVMValueRef table[MATMUL_KERNELS];
    for (int i = 0; i < MATMUL_KERNELS; i++)
        table[i] = LLVMConstNull(ir_pointer(b));
    struct matmul_tile tile = {.type = TYPE_F32, .lanes = target->vector_bytes / 4};
    for (tile.vectors = 1; tile.vectors <= MATMUL_MOST_VECTORS; tile.vectors++)
        for (tile.rows = 1; tile.rows <= MATMUL_MOST_ROWS; tile.rows++)
            for (int extras = 0; extras < MATMUL_EXTRAS; extras++)
                if (matmul_tile_fits(target, &tile))
                    table[matmul_kernel_number(&tile, extras)] =
                        matmul_kernel_emit(b, target, &tile, extras);
    LLVMValueRef data = LLVMConstArray2(ir_pointer(b), table, MATMUL_KERNELS);
    LLVMValueRef global = LLVMAddGlobal(b->module, LLVMTypeOf(data), symbol);
    LLVMSetInitializer(global, data);
    LLVMSetGlobalConstant(global, true);
}

static bool generate(const struct cpu_options *options, const char *symbol, struct cpu_code *code,
                     struct diag *diag) {
    struct cpu_machine machine;
    struct cpu_target target;
    if (!cpu_machine_new(options, &machine, diag)) return false;
    cpu_target_read(machine.llvm, false, &target);
    struct cpu_builder b = {.context = LLVMContextCreate()};
    b.module = LLVMModuleCreateWithNameInContext(symbol, b.context);
    b.builder = LLVMCreateBuilderInContext(b.context);
    char *triple = LLVMGetTargetMachineTriple(machine.llvm);
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine.llvm);
    LLVMSetTarget(b.module, triple);
    LLVMSetModuleDataLayout(b.module, layout);
    emit_table(&b, &target, symbol);
    bool ok = codegen_module(b.module, machine.llvm, options, CPU_OBJ, code, diag);
    LLVMDisposeMessage(triple);
    LLVMDisposeTargetData(layout);
    LLVMDisposeBuilder(b.builder);
    LLVMDisposeModule(b.module);
    LLVMContextDispose(b.context);
    LLVMDisposeTargetMachine(machine.llvm);
    return ok;
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    struct cpu_options options = {
        .opt_level = 2, .mcpu = argv[1], .triple = "x86_64-unknown-linux-gnu"};
    struct cpu_code code = {0};
    struct diag diag;
    diag_init(&diag, "kernels", NULL, 0);
    if (!generate(&options, argv[2], &code, &diag)) {
        diag_print(&diag, stderr, false);
        return 1;
    }
    FILE *file = fopen(argv[3], "wb");
    bool written = file && fwrite(code.data, 1, code.size, file) == code.size;
    if (!file || fclose(file) != 0 || !written) {
        perror(argv[3]);
        return 1;
    }
    return 0;
}
