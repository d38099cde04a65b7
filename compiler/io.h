/* Files as whole byte strings, and short error texts. */
#ifndef COMPILER_IO_H
#define COMPILER_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* What went wrong, in one line, for a caller that knows where. */
struct fault {
    char text[512];
};

/* Always false, so that failing functions can return it. */
bool fault_set(struct fault *fault, const char *format, ...) __attribute__((format(printf, 2, 3)));

struct bytes {
    uint8_t *data; /* malloc memory, one NUL byte past the end; never NULL after success */
    size_t size;
};

/* Reads a whole regular file or pipe of at most 4 GiB; "-" is standard input. */
bool file_read(const char *path, struct bytes *bytes, struct fault *fault);
/* Opens a file to read; *size is that of a regular file, else -1. NULL with a fault. */
FILE *file_open(const char *path, int64_t *size, struct fault *fault);

/* A file that is written whole or not at all: bytes go to a neighbour that takes the name on
 * commit. "-" or NULL: standard output. */
struct output {
    FILE *stream;
    char *path, *temporary; /* NULL for standard output */
};

bool output_open(struct output *output, const char *path, struct fault *fault);
/* False for devices and pipes, which have no neighbours. */
bool output_is_file(const char *path);
/* The file may be run by whoever may read it. */
void output_executable(struct output *output);
bool output_commit(struct output *output, struct fault *fault);
void output_abandon(struct output *output);
bool file_write(const char *path, const void *data, size_t size, struct fault *fault);

/* Makes the directory and its parents; fine where it exists. */
bool directory_make(const char *path, struct fault *fault);

/* malloc memory, or an abort: for paths and messages, whose size the input does not choose. */
char *text_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

double clock_seconds(void); /* monotonic */

#endif
