/* What the assembler's files share. */
#ifndef BACKEND_TPU_ASM_INTERNAL_H
#define BACKEND_TPU_ASM_INTERNAL_H

#include "backend/tpu/asm.h"

/* Bytes that one .zero line stands for at most, so that a text cannot ask for much more memory than
 * it is long itself. */
enum { ASM_MOST_ZEROS = 1024, ASM_MOST_GROWTH = 128 };

struct asm_label {
    const char *name;
    uint32_t bundle;
};
struct asm_fixup { /* a TARGET that names a label */
    const char *name;
    uint32_t bundle;
    struct src_loc loc;
};

struct assembler {
    struct arena *arena;
    struct diag *diag;
    const char *at, *end; /* the rest of the text */
    const char *line_start;
    uint32_t line;
    bool failed;
    struct tpu_program *program;
    int bundle_capacity, label_capacity, fixup_capacity, line_capacity;
    int labels, fixups;
    uint64_t data_at; /* bytes of the last .constant that have been read */
    struct asm_label *label;
    struct asm_fixup *fixup;
};

/* Words of the current line; blanks and comments are skipped, newlines are not. */
void asm_blanks(struct assembler *as);
struct src_loc asm_loc(const struct assembler *as);
/* Always false. */
bool asm_error(struct assembler *as, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool asm_peek(struct assembler *as, char c);
bool asm_accept(struct assembler *as, char c);
bool asm_expect(struct assembler *as, char c);
/* A word of letters, digits, `_` and `.`, in arena memory; NULL where there is none. */
const char *asm_word(struct assembler *as);
/* A whole number from `least` to `most`, decimal or hexadecimal. */
bool asm_integer(struct assembler *as, int64_t least, int64_t most, int64_t *value);
/* The bits of a number as the machine holds them: whole ones from -2^31 to 2^32 - 1, or a float. */
bool asm_number(struct assembler *as, uint32_t *bits);

/* { ... }: parses one bundle. TARGETs that are labels are 0 in it, with a fixup noted. */
bool asm_bundle(struct assembler *as, struct tpu_bundle *bundle, uint32_t number);
/* Sets the label's address as the bundle's TARGET. */
bool asm_set_target(struct assembler *as, struct tpu_bundle *bundle, uint32_t target);

#endif
