#include "backend/cpu/debug_info.h"

#include <string.h>

#include <llvm-c/DebugInfo.h>

enum { DWARF_VERSION = 4, MOST_FRAMES = 32 };

struct cpu_debug {
    LLVMDIBuilderRef builder;
    LLVMMetadataRef file, type;
    LLVMMetadataRef base;     /* where the body being emitted is: inlined code is in there */
    LLVMMetadataRef *scopes;  /* by instruction id: the function that stands for it, or NULL */
    LLVMMetadataRef *callers; /* by number of a file location: the Python function, or NULL */
    int64_t parent_base;      /* what a frame's parent is counted from */
};

/* ---- the unit ---- */

static void add_flag(struct cpu_gen *g, const char *key, unsigned value) {
    LLVMTypeRef i32 = LLVMInt32TypeInContext(g->b.context);
    LLVMAddModuleFlag(g->b.module, LLVMModuleFlagBehaviorWarning, key, strlen(key),
                      LLVMValueAsMetadata(LLVMConstInt(i32, value, false)));
}

/* XLA writes a frame's parent counted from 2, and 1 for none; where some frame has parent 0, the
 * text counts from 1. */
static int64_t parent_base_of(const struct stack_tables *tables) {
    for (int i = 0; tables && i < tables->nframes; i++)
        if (tables->frames[i].parent == 0) return 0;
    return 1;
}

void debug_start(struct cpu_gen *g, const char *file, const char *directory) {
    static const char producer[] = "hlocc";
    struct cpu_debug *debug = arena_alloc(g->arena, sizeof *debug);
    const struct stack_tables *tables = g->hlo->tables;
    size_t locations = tables ? (size_t)tables->nlocations : 0;
    memset(debug, 0, sizeof *debug);
    debug->scopes = arena_array(g->arena, (size_t)g->hlo->next_id + 1, sizeof *debug->scopes);
    debug->callers = arena_array(g->arena, locations + 1, sizeof *debug->callers);
    debug->parent_base = parent_base_of(tables);
    debug->builder = LLVMCreateDIBuilder(g->b.module);
    debug->file =
        LLVMDIBuilderCreateFile(debug->builder, file, strlen(file), directory, strlen(directory));
    LLVMDIBuilderCreateCompileUnit(debug->builder, LLVMDWARFSourceLanguageC99, debug->file,
                                   producer, sizeof producer - 1, true, "", 0, 0, "", 0,
                                   LLVMDWARFEmissionFull, 0, true, false, "", 0, "", 0);
    debug->type =
        LLVMDIBuilderCreateSubroutineType(debug->builder, debug->file, NULL, 0, LLVMDIFlagZero);
    add_flag(g, "Debug Info Version", LLVMDebugMetadataVersion());
    add_flag(g, "Dwarf Version", DWARF_VERSION);
    g->debug = debug;
}

/* Functions that serve several instructions have no place of their own, and what was in force when
 * they were begun is none for them. */
static void clear_places(LLVMValueRef function) {
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(function); b; b = LLVMGetNextBasicBlock(b))
        for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i))
            LLVMInstructionSetDebugLoc(i, NULL);
}

void debug_finish(struct cpu_gen *g) {
    if (!g->debug) return;
    LLVMValueRef f;
    for (f = LLVMGetFirstFunction(g->b.module); f; f = LLVMGetNextFunction(f))
        if (!LLVMGetSubprogram(f)) clear_places(f);
    LLVMDIBuilderFinalize(g->debug->builder);
    LLVMDisposeDIBuilder(g->debug->builder);
    g->debug = NULL;
}

/* ---- functions and locations ---- */

static LLVMMetadataRef new_function(struct cpu_debug *debug, const char *name, const char *symbol,
                                    LLVMMetadataRef file, unsigned line, bool local) {
    return LLVMDIBuilderCreateFunction(debug->builder, file, name, strlen(name), symbol,
                                       strlen(symbol), file, line, debug->type, local, true, line,
                                       LLVMDIFlagZero, true);
}

static LLVMMetadataRef new_location(struct cpu_gen *g, struct src_loc loc, LLVMMetadataRef scope,
                                    LLVMMetadataRef inlined_at) {
    return LLVMDIBuilderCreateDebugLocation(g->b.context, loc.line, loc.col, scope, inlined_at);
}

/* Where the text has the instruction; one that a pass made is where its root was. */
static struct src_loc loc_of(const struct hlo_instr *instr) {
    while (instr->loc.line == 0 && instr->opcode == OP_FUSION && instr->called[0]->root)
        instr = instr->called[0]->root;
    return instr->loc;
}

/* The function that stands for an instruction's code. */
static LLVMMetadataRef scope_of(struct cpu_debug *debug, const struct hlo_instr *instr) {
    LLVMMetadataRef *slot = &debug->scopes[instr->id];
    if (!*slot) *slot = new_function(debug, instr->name, "", debug->file, loc_of(instr).line, true);
    return *slot;
}

static LLVMMetadataRef new_caller(struct cpu_debug *debug, const char *function, const char *file) {
    LLVMMetadataRef in = LLVMDIBuilderCreateFile(debug->builder, file, strlen(file), "", 0);
    return new_function(debug, function, "", in, 0, true);
}

static unsigned line_number(int64_t line) {
    return line > 0 && line < INT32_MAX ? (unsigned)line : 0;
}

/* The frames of a stack, outermost first: each is inlined in the one before it. */
static LLVMMetadataRef inline_frames(struct cpu_gen *g, int64_t frame, LLVMMetadataRef at) {
    const struct stack_tables *tables = g->hlo->tables;
    int64_t stack[MOST_FRAMES];
    int depth = 0;
    for (; frame >= 1 && frame <= tables->nframes && depth < MOST_FRAMES;
         frame = tables->frames[frame - 1].parent - g->debug->parent_base)
        stack[depth++] = tables->frames[frame - 1].location;
    while (depth-- > 0) {
        if (stack[depth] < 1 || stack[depth] > tables->nlocations) continue;
        const struct file_location *place = &tables->locations[stack[depth] - 1];
        if (place->file < 1 || place->file > tables->nfiles) continue;
        bool named = place->function >= 1 && place->function <= tables->nfunctions;
        LLVMMetadataRef *slot = &g->debug->callers[stack[depth]];
        if (!*slot)
            *slot = new_caller(g->debug, named ? tables->functions[place->function - 1] : "",
                               tables->files[place->file - 1]);
        struct src_loc loc = {line_number(place->line), line_number(place->column)};
        at = new_location(g, loc, *slot, at);
    }
    return at;
}

/* The place in the user's program that an instruction's metadata names, within `at`. */
static LLVMMetadataRef inline_source(struct cpu_gen *g, const struct hlo_instr *instr,
                                     LLVMMetadataRef at) {
    const struct hlo_metadata *metadata = instr->metadata;
    if (!metadata) return at;
    if (!metadata->source_file)
        return g->hlo->tables ? inline_frames(g, metadata->stack_frame_id, at) : at;
    const char *name = metadata->op_name ? metadata->op_name : "";
    struct src_loc loc = {line_number(metadata->source_line), 0};
    return new_location(g, loc, new_caller(g->debug, name, metadata->source_file), at);
}

/* ---- where emission is ---- */

static struct debug_place change(struct cpu_gen *g, LLVMMetadataRef base,
                                 LLVMMetadataRef location) {
    struct debug_place before = {g->debug->base, LLVMGetCurrentDebugLocation2(g->b.builder)};
    g->debug->base = base;
    LLVMSetCurrentDebugLocation2(g->b.builder, location);
    return before;
}

void debug_restore(struct cpu_gen *g, struct debug_place place) {
    if (g->debug) change(g, place.base, place.location);
}

struct debug_place debug_function(struct cpu_gen *g, LLVMValueRef function,
                                  const struct hlo_instr *instr) {
    if (!g->debug) return (struct debug_place){0};
    size_t length;
    const char *name = LLVMGetValueName2(function, &length);
    struct src_loc loc = instr ? loc_of(instr) : g->hlo->entry->loc;
    LLVMMetadataRef scope = new_function(g->debug, name, name, g->debug->file, loc.line,
                                         LLVMGetLinkage(function) == LLVMInternalLinkage);
    LLVMSetSubprogram(function, scope);
    LLVMMetadataRef base = new_location(g, loc, scope, NULL);
    return change(g, base, base);
}

struct debug_place debug_line(struct cpu_gen *g, const struct hlo_instr *instr) {
    if (!g->debug) return (struct debug_place){0};
    LLVMMetadataRef scope = LLVMDILocationGetScope(g->debug->base);
    LLVMMetadataRef base = new_location(g, loc_of(instr), scope, NULL);
    return change(g, base, base);
}

struct debug_place debug_enter(struct cpu_gen *g, const struct hlo_instr *instr) {
    if (!g->debug) return (struct debug_place){0};
    LLVMMetadataRef base = g->debug->base;
    if (instr->opcode == OP_FUSION) return change(g, base, base); /* what is in it has a place */
    LLVMMetadataRef at = inline_source(g, instr, base);
    return change(g, base, new_location(g, loc_of(instr), scope_of(g->debug, instr), at));
}
