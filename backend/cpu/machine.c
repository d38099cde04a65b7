#include "backend/cpu/machine.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <llvm-c/Core.h>
#include <llvm-c/Support.h>
#include <llvm-c/Target.h>

/* ---- architectures ---- */

/* Loop strength reduction takes a quarter of all time for x86, whose addresses have a scaled index
 * of their own: loops come out an instruction longer or as long, and run as fast. Scheduling once
 * more after registers are allocated takes a sixth of what is left for AMD's processors, the only
 * ones it is done for; they reorder as far as others do, and nothing runs faster for it. LLVM's C
 * interface has no other place to say so than its options, which are the process's. */
static void start_x86(void) {
    static const char *const options[] = {"hlocc", "-disable-lsr", "-disable-post-ra"};
    LLVMParseCommandLineOptions(sizeof options / sizeof *options, options, NULL);
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
}

static void start_aarch64(void) {
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
}

static void start_riscv(void) {
    LLVMInitializeRISCVTargetInfo();
    LLVMInitializeRISCVTarget();
    LLVMInitializeRISCVTargetMC();
    LLVMInitializeRISCVAsmPrinter();
}

/* LLVM keeps its targets in a table of the process, which is written without a lock. */
static pthread_once_t once_x86 = PTHREAD_ONCE_INIT, once_aarch64 = PTHREAD_ONCE_INIT,
                      once_riscv = PTHREAD_ONCE_INIT;

static const struct arch {
    const char *name, *other; /* first part of a triple */
    pthread_once_t *once;
    void (*start)(void);
    const char *cpu, *features; /* of the plain processor; Linux distributions count on them */
    const char *abi;            /* NULL: the only one */
} archs[CPU_ARCH_COUNT] = {
    [CPU_X86_64] = {"x86_64", "x86_64", &once_x86, start_x86, "x86-64", "", NULL},
    [CPU_AARCH64] = {"aarch64", "arm64", &once_aarch64, start_aarch64, "generic", "", NULL},
    [CPU_RISCV64] = {"riscv64", "riscv64", &once_riscv, start_riscv, "generic-rv64",
                     "+m,+a,+f,+d,+c", "lp64d"},
};

/* CPU_ARCH_COUNT where it is none of them. */
static enum cpu_arch arch_of(const char *triple) {
    size_t length = strcspn(triple, "-");
    for (int i = 0; i < CPU_ARCH_COUNT; i++) {
        bool is = strlen(archs[i].name) == length && memcmp(archs[i].name, triple, length) == 0;
        bool too = strlen(archs[i].other) == length && memcmp(archs[i].other, triple, length) == 0;
        if (is || too) return (enum cpu_arch)i;
    }
    return CPU_ARCH_COUNT;
}

/* Vendors, systems and C libraries whose pointers have 64 bits and whose object files we write. */
static bool is_known_system(const char *triple) {
    static const char words[] = " unknown none pc apple suse redhat alpine linux freebsd netbsd "
                                "openbsd darwin macos macosx elf gnu musl android ";
    for (const char *at = strchr(triple, '-'); at; at = strchr(at + 1, '-')) {
        char word[24];
        size_t length = strcspn(at + 1, "-.0123456789"); /* darwin23.1 is a darwin */
        if (length == 0 || length + 3 > sizeof word) return false;
        snprintf(word, sizeof word, " %.*s ", (int)length, at + 1);
        if (!strstr(words, word)) return false;
    }
    return true;
}

static bool is_processor(enum cpu_arch arch, const char *name) {
    static const struct {
        enum cpu_arch arch;
        const char *name;
    } rows[] = {
#define PROCESSOR(arch, name) {CPU_##arch, name},
#include "backend/cpu/processor.def"
#undef PROCESSOR
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].arch == arch && strcmp(rows[i].name, name) == 0) return true;
    return false;
}

/* ---- machines ---- */

static LLVMTargetMachineRef make(const char *triple, const struct arch *arch, const char *cpu,
                                 const char *features, int level, struct diag *diag) {
    LLVMTargetRef target;
    LLVMTargetMachineRef machine = NULL;
    char *why = NULL;
    if (LLVMGetTargetFromTriple(triple, &target, &why) == 0) {
        LLVMTargetMachineOptionsRef options = LLVMCreateTargetMachineOptions();
        LLVMTargetMachineOptionsSetCPU(options, cpu);
        LLVMTargetMachineOptionsSetFeatures(options, features);
        if (arch->abi) LLVMTargetMachineOptionsSetABI(options, arch->abi);
        LLVMTargetMachineOptionsSetCodeGenOptLevel(options, (LLVMCodeGenOptLevel)level);
        LLVMTargetMachineOptionsSetRelocMode(options, LLVMRelocPIC);
        machine = LLVMCreateTargetMachineWithOptions(target, triple, options);
        LLVMDisposeTargetMachineOptions(options);
    }
    if (!machine)
        diag_error(diag, (struct src_loc){0}, "no code for %s: %s", triple,
                   why ? why : "no machine");
    LLVMDisposeMessage(why);
    return machine;
}

/* The processor and the features of this machine where nothing else is asked for. */
static bool make_native(const char *triple, const struct arch *arch, int level,
                        struct cpu_machine *machine, struct diag *diag) {
    char *cpu = LLVMGetHostCPUName(), *features = LLVMGetHostCPUFeatures();
    machine->native = true;
    machine->llvm = make(triple, arch, cpu, features, level, diag);
    LLVMDisposeMessage(cpu);
    LLVMDisposeMessage(features);
    return machine->llvm != NULL;
}

static bool make_for(const struct cpu_options *options, const char *triple, const char *host,
                     struct cpu_machine *machine, struct diag *diag) {
    const struct src_loc nowhere = {0};
    machine->arch = arch_of(triple);
    if (machine->arch == CPU_ARCH_COUNT || !is_known_system(triple)) {
        diag_error(diag, nowhere,
                   "no code for %s: it is made for x86_64, aarch64 and riscv64 with Linux, BSD, "
                   "macOS or no system",
                   triple);
        return false;
    }
    const struct arch *arch = &archs[machine->arch];
    bool here = machine->arch == arch_of(host), named = options->mcpu != NULL;
    bool native = named && strcmp(options->mcpu, "native") == 0;
    pthread_once(arch->once, arch->start);
    if (native && !here) {
        diag_error(diag, nowhere, "--mcpu=native: this machine is no %s", arch->name);
        return false;
    }
    if (here && (native || !named))
        return make_native(triple, arch, options->opt_level, machine, diag);
    bool plain = !named || strcmp(options->mcpu, "generic") == 0;
    if (!plain && !is_processor(machine->arch, options->mcpu)) {
        diag_error(diag, nowhere, "--mcpu: no %s processor '%s'", arch->name, options->mcpu);
        return false;
    }
    machine->llvm = make(triple, arch, plain ? arch->cpu : options->mcpu,
                         plain ? arch->features : "", options->opt_level, diag);
    return machine->llvm != NULL;
}

bool cpu_machine_new(const struct cpu_options *options, struct cpu_machine *machine,
                     struct diag *diag) {
    char *host = LLVMGetDefaultTargetTriple();
    const char *wanted = options->triple ? options->triple : host;
    bool bare = !strchr(wanted, '-'); /* an architecture alone */
    char text[256];
    snprintf(text, sizeof text, "%s%s", wanted, bare ? "-unknown-linux-gnu" : "");
    char *triple = LLVMNormalizeTargetTriple(text);
    *machine = (struct cpu_machine){0};
    bool ok = make_for(options, triple, host, machine, diag);
    LLVMDisposeMessage(triple);
    LLVMDisposeMessage(host);
    return ok;
}

bool cpu_check_machine(const struct cpu_options *options, struct diag *diag) {
    struct cpu_machine machine;
    if (!cpu_machine_new(options, &machine, diag)) return false;
    LLVMDisposeTargetMachine(machine.llvm);
    return true;
}

char *cpu_machine_text(const struct cpu_options *options) {
    char *host = LLVMGetDefaultTargetTriple(), *cpu = LLVMGetHostCPUName();
    char *features = LLVMGetHostCPUFeatures(), *text = NULL;
    bool named = options->mcpu && strcmp(options->mcpu, "native") != 0;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (out) {
        fprintf(out, "%s;%s;", options->triple ? options->triple : host,
                options->mcpu ? options->mcpu : "");
        if (!named) fprintf(out, "%s;%s;%s", host, cpu, features);
        fclose(out);
    }
    LLVMDisposeMessage(host);
    LLVMDisposeMessage(cpu);
    LLVMDisposeMessage(features);
    return text;
}
