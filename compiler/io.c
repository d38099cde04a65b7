#include "compiler/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ir/arena.h"

bool fault_set(struct fault *fault, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(fault->text, sizeof fault->text, format, args);
    va_end(args);
    return false;
}

char *text_format(const char *format, ...) {
    char *text = NULL;
    va_list args;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0) abort();
    va_end(args);
    return text;
}

double clock_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Lines and columns are counted in 32 bits; and /dev/zero has no end. */
#define MAX_TEXT ((size_t)UINT32_MAX)

static bool read_all(int fd, size_t expected, struct bytes *bytes, struct fault *fault) {
    size_t capacity = expected + 1, size = 0;
    uint8_t *data = malloc(capacity);
    if (data) memory_prefer_huge_pages(data, capacity);
    while (data) {
        if (size > MAX_TEXT) {
            free(data);
            return fault_set(fault, "is longer than 4 GiB");
        }
        if (size + 1 >= capacity) {
            uint8_t *grown = capacity > SIZE_MAX / 4 ? NULL : realloc(data, capacity * 2 + 4096);
            if (!grown) break;
            data = grown;
            capacity = capacity * 2 + 4096;
        }
        ssize_t got = read(fd, data + size, capacity - 1 - size);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            free(data);
            return fault_set(fault, "cannot be read: %s", strerror(errno));
        }
        if (got == 0) {
            data[size] = 0;
            bytes->data = data;
            bytes->size = size;
            return true;
        }
        size += (size_t)got;
    }
    free(data);
    return fault_set(fault, "does not fit in memory");
}

static bool is_readable(int fd, int64_t *size, struct fault *fault) {
    struct stat status;
    if (fstat(fd, &status) != 0) return fault_set(fault, "cannot be read: %s", strerror(errno));
    if (S_ISDIR(status.st_mode)) return fault_set(fault, "is a directory");
    *size = S_ISREG(status.st_mode) ? (int64_t)status.st_size : -1;
    return true;
}

bool file_read(const char *path, struct bytes *bytes, struct fault *fault) {
    bool is_stdin = strcmp(path, "-") == 0;
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return fault_set(fault, "cannot be opened: %s", strerror(errno));
    int64_t size;
    bool ok = is_readable(fd, &size, fault);
    /* One byte more than expected, so that the end is seen without growing. */
    ok = ok && read_all(fd, size >= 0 ? (size_t)size + 1 : 65536, bytes, fault);
    if (!is_stdin) close(fd);
    return ok;
}

FILE *file_open(const char *path, int64_t *size, struct fault *fault) {
    FILE *file = fopen(path, "rbe");
    if (!file) return fault_set(fault, "cannot be opened: %s", strerror(errno)), NULL;
    if (is_readable(fileno(file), size, fault)) return file;
    fclose(file);
    return NULL;
}

bool output_is_file(const char *path) {
    struct stat status;
    return stat(path, &status) != 0 || S_ISREG(status.st_mode) || S_ISDIR(status.st_mode);
}

bool output_open(struct output *output, const char *path, struct fault *fault) {
    memset(output, 0, sizeof *output);
    if (!path || strcmp(path, "-") == 0) {
        output->stream = stdout;
        return true;
    }
    struct stat status;
    if (stat(path, &status) == 0 && S_ISDIR(status.st_mode)) {
        return fault_set(fault, "is a directory");
    }
    output->path = text_format("%s", path);
    /* Devices and pipes (/dev/null) must not be renamed over. */
    if (!output_is_file(path)) {
        output->stream = fopen(path, "wb");
    } else {
        output->temporary = text_format("%s.%ld.tmp", path, (long)getpid());
        output->stream = fopen(output->temporary, "wb");
    }
    if (output->stream) return true;
    fault_set(fault, "cannot be written: %s", strerror(errno));
    free(output->path);
    free(output->temporary);
    memset(output, 0, sizeof *output);
    return false;
}

void output_executable(struct output *output) {
    struct stat status;
    if (!output->temporary || fstat(fileno(output->stream), &status) != 0) return;
    fchmod(fileno(output->stream), (status.st_mode | (status.st_mode & 0444) >> 2) & 07777);
}

bool output_commit(struct output *output, struct fault *fault) {
    if (!output->path) {
        bool ok = fflush(output->stream) == 0 && !ferror(output->stream);
        return ok || fault_set(fault, "cannot be written: %s", strerror(errno));
    }
    bool ok = !ferror(output->stream);
    ok = fclose(output->stream) == 0 && ok;
    output->stream = NULL;
    if (ok && output->temporary) ok = rename(output->temporary, output->path) == 0;
    if (!ok) fault_set(fault, "cannot be written: %s", strerror(errno));
    if (!ok && output->temporary) unlink(output->temporary);
    free(output->path);
    free(output->temporary);
    return ok;
}

void output_abandon(struct output *output) {
    if (!output->path) return;
    if (output->stream) fclose(output->stream);
    if (output->temporary) unlink(output->temporary);
    free(output->path);
    free(output->temporary);
    memset(output, 0, sizeof *output);
}

bool file_write(const char *path, const void *data, size_t size, struct fault *fault) {
    struct output output;
    if (!output_open(&output, path, fault)) return false;
    if (size) fwrite(data, 1, size, output.stream);
    return output_commit(&output, fault);
}

bool directory_make(const char *path, struct fault *fault) {
    char *copy = text_format("%s", path);
    bool ok = true;
    for (char *slash = copy + 1; ok && *copy; slash++) {
        if (*slash != '/' && *slash != 0) continue;
        char saved = *slash;
        *slash = 0;
        if (mkdir(copy, 0777) != 0 && errno != EEXIST) {
            ok = fault_set(fault, "cannot be made: %s", strerror(errno));
        }
        *slash = saved;
        if (!saved) break;
    }
    struct stat status;
    if (ok && (stat(path, &status) != 0 || !S_ISDIR(status.st_mode))) {
        ok = fault_set(fault, "is no directory");
    }
    free(copy);
    return ok;
}
