/* Chips as data. */
#ifndef RUNTIME_TPU_CHIP_H
#define RUNTIME_TPU_CHIP_H

#include <stddef.h>
#include <stdint.h>

/* What went wrong, one line. */
struct tpu_error {
    char text[512];
};

enum { TPU_CHIP_NAME = 32 };
struct tpu_chip {
    char name[TPU_CHIP_NAME];
#define X(name, least, most, text) int64_t name;
#include "runtime/tpu/chip.def"
#undef X
};

/* Chips that are built in: "v2", "v3", "v4", "v5e". 0, or -1 where the name is none of them. */
int tpu_chip_builtin(const char *name, struct tpu_chip *chip);
/* Their names in order; NULL past the last. */
const char *tpu_chip_builtin_name(int index);

/* A JSON object with "name" and the figures of chip.def; "like": "v2" gives what is left out.
 * 0, or -1 with an error: syntax, an unknown key, a figure out of range or missing. */
int tpu_chip_parse(const char *json, size_t size, struct tpu_chip *chip, struct tpu_error *error);
/* The chip as such an object, all figures, in malloc memory. */
char *tpu_chip_print(const struct tpu_chip *chip);
/* -1 with an error where figures are out of range or do not go together. */
int tpu_chip_check(const struct tpu_chip *chip, struct tpu_error *error);

#endif
