/* A chip as data: the figures that the compiler, the loader and the emulator need to know. Built-in
 * chips are the files in chips/; a file of the user's own has the same fields, or "like" and those
 * that differ. */
#ifndef RUNTIME_TPU_CHIP_H
#define RUNTIME_TPU_CHIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tpu_chip {
    char name[32];
#define X(name, least, most, text) int64_t name;
#include "runtime/tpu/chip.def"
#undef X
};

/* A chip's text must fit in this. */
enum { TPU_CHIP_MOST_BYTES = 64 * 1024 };

/* A built-in chip by name ("v2"); NULL where there is none. */
const char *tpu_chip_text(const char *name);
/* Reads a chip from JSON text. False with a sentence in `why` (of `size` bytes) where a field is
 * missing, unknown, repeated or out of range, or where fields do not go together. */
bool tpu_chip_parse(struct tpu_chip *chip, const char *text, size_t length, char *why, size_t size);
/* A built-in chip's name, or the path of a JSON file. False with a sentence in `why`. */
bool tpu_chip_load(struct tpu_chip *chip, const char *name_or_path, char *why, size_t size);
/* False with a sentence in `why` where a field is out of range or fields do not go together. */
bool tpu_chip_check(const struct tpu_chip *chip, char *why, size_t size);
/* The chip as such a JSON object on one line, every field, in malloc memory; NULL without memory.
 */
char *tpu_chip_print(const struct tpu_chip *chip);

#ifdef __cplusplus
}
#endif
#endif
