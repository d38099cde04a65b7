#include "runtime/cpu/driver.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime/cpu/custom_call.h"
#include "runtime/cpu/npy_file.h"

enum { EXIT_FILES = 1, EXIT_USAGE = 2, MOST_RUNS = 1000000 };

struct array {
    struct hlocc_rt_npy_type type;
    char name[16];      /* of the element type */
    const char *called; /* what the program calls it */
    int64_t dims[NPY_MAX_RANK];
    char *path, *temporary; /* of the file; where a result is until all of them are there */
    void *data;
};

struct driver {
    const char *program;
    int count[2]; /* inputs, results */
    struct array *arrays[2];
    const char *directory[2]; /* --inputs, --out; or NULL */
    int runs;
    void *workspace;
};

static const char *const stems[2] = {"in", "out"};

/* ---- messages ---- */

static int fail(const char *path, const char *why) {
    fprintf(stderr, "%s: error: %s\n", path, why);
    return EXIT_FILES;
}

static void print_usage(const struct driver *d, FILE *out) {
    fprintf(out,
            "usage: %s IN.npy... OUT.npy...       (%d inputs, %d outputs)\n"
            "       %s --inputs=DIR --out=DIR     (DIR/in.K.npy, DIR/out.K.npy)\n"
            "  --repeat=N    run N times; the least and the median time go to standard error\n",
            d->program, d->count[0], d->count[1], d->program);
    for (int side = 0; side < 2; side++) {
        for (int i = 0; i < d->count[side]; i++) {
            const struct array *a = &d->arrays[side][i];
            fprintf(out, "  %s.%d: %s[", stems[side], i, a->name);
            for (int k = 0; k < a->type.rank; k++)
                fprintf(out, "%s%" PRId64, k ? "," : "", a->dims[k]);
            fprintf(out, "]%s%s\n", *a->called ? " " : "", a->called);
        }
    }
}

/* ---- descriptions ---- */

static void describe(struct array *a, const char *text) {
    int at = 0, step = 0;
    char sign = '-';
    sscanf(text, "%c %d %d %c %15s %d%n", &a->type.kind, &a->type.size, &a->type.bits, &sign,
           a->name, &a->type.rank, &at);
    for (int i = 0; i < a->type.rank && i < NPY_MAX_RANK; i++, at += step)
        sscanf(text + at, "%" SCNd64 "%n", &a->dims[i], &step);
    a->type.is_signed = sign == 's';
    a->type.is_unsigned = sign == 'u';
    a->type.name = a->name;
    a->type.dims = a->dims;
    a->called = text[at] ? text + at + 1 : "";
}

static char *format_path(const char *directory, const char *stem, int number) {
    size_t size = strlen(directory) + 32;
    char *path = malloc(size);
    if (path) snprintf(path, size, "%s/%s.%d.npy", directory, stem, number);
    return path;
}

/* ---- inputs ---- */

static void *allocate(int64_t bytes) {
    size_t size = ((size_t)bytes + 63) / 64 * 64;
    return aligned_alloc(64, size ? size : 64);
}

static int read_array(struct array *a) {
    char why[NPY_WHY];
    struct stat status;
    struct hlocc_rt_npy npy;
    FILE *file = fopen(a->path, "rb");
    if (!file) {
        snprintf(why, sizeof why, "cannot be opened: %s", strerror(errno));
        return fail(a->path, why);
    }
    bool regular = fstat(fileno(file), &status) == 0 && S_ISREG(status.st_mode);
    bool ok = hlocc_rt_npy_begin(&npy, file, regular ? status.st_size : -1, &a->type, why);
    if (ok) {
        a->data = allocate(npy.bytes);
        ok = hlocc_rt_npy_end(&npy, a->data, why);
    }
    fclose(file);
    return ok ? 0 : fail(a->path, why);
}

/* ---- results ---- */

/* Devices and pipes are written to as they are: they have no neighbours. */
static bool has_neighbour(const char *path) {
    struct stat status;
    return stat(path, &status) != 0 || S_ISREG(status.st_mode);
}

static int write_array(struct array *a) {
    const char *to = a->path;
    if (has_neighbour(a->path)) {
        size_t size = strlen(a->path) + 32;
        a->temporary = malloc(size);
        if (!a->temporary) return fail(a->path, "memory is exhausted");
        snprintf(a->temporary, size, "%s.%ld.tmp", a->path, (long)getpid());
        to = a->temporary;
    }
    FILE *file = fopen(to, "wb");
    if (file) hlocc_rt_npy_write(file, &a->type, a->data);
    bool bad = !file || ferror(file);
    if (file && fclose(file) != 0) bad = true;
    if (!bad) return 0;
    char why[NPY_WHY];
    snprintf(why, sizeof why, "cannot be written: %s", strerror(errno));
    return fail(a->path, why);
}

/* All results take their names once all are written: none is there by halves. */
static int write_results(struct driver *d) {
    int status = 0;
    if (d->directory[1] && mkdir(d->directory[1], 0777) != 0 && errno != EEXIST)
        return fail(d->directory[1], strerror(errno));
    for (int i = 0; i < d->count[1] && !status; i++)
        status = write_array(&d->arrays[1][i]);
    for (int i = 0; i < d->count[1]; i++) {
        struct array *a = &d->arrays[1][i];
        if (!a->temporary) continue;
        if (status)
            unlink(a->temporary);
        else if (rename(a->temporary, a->path) != 0)
            status = fail(a->path, strerror(errno));
    }
    return status;
}

/* ---- running ---- */

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int report_status(const struct driver *d, int status) {
    char why[64 + HLOCC_MESSAGE_SIZE];
    const char *message = status == HLOCC_STATUS_CUSTOM_CALL ? d->workspace : "";
    snprintf(why, sizeof why, "the program stopped with status %d%s%.*s", status,
             *message ? ": " : "", HLOCC_MESSAGE_SIZE - 1, message);
    return fail(d->program, why);
}

static int run(struct driver *d, hlocc_rt_entry *entry, size_t workspace_size) {
    const void **in = calloc((size_t)d->count[0] + 1, sizeof *in);
    void **out = calloc((size_t)d->count[1] + 1, sizeof *out);
    double *times = calloc((size_t)d->runs, sizeof *times);
    d->workspace = allocate((int64_t)workspace_size);
    bool ok = in && out && times && d->workspace;
    for (int i = 0; i < d->count[0] && ok; i++)
        in[i] = d->arrays[0][i].data;
    for (int i = 0; i < d->count[1] && ok; i++) {
        struct array *a = &d->arrays[1][i];
        out[i] = a->data = allocate(hlocc_rt_npy_bytes(&a->type));
        ok = out[i] != NULL;
    }
    int status = ok ? 0 : fail(d->program, "memory is exhausted");
    for (int i = 0; i < d->runs && !status; i++) {
        double start = seconds();
        int code = entry(in, out, d->workspace);
        times[i] = seconds() - start;
        if (code) status = report_status(d, code);
    }
    if (!status && d->runs > 1) {
        qsort(times, (size_t)d->runs, sizeof *times, by_value);
        fprintf(stderr, "run %.3f ms least, %.3f ms median of %d\n", times[0] * 1e3,
                times[d->runs / 2] * 1e3, d->runs);
    }
    free(in);
    free(out);
    free(times);
    return status;
}

/* ---- the command line ---- */

static bool read_option(struct driver *d, const char *word) {
    static const char *const names[2] = {"--inputs=", "--out="};
    for (int side = 0; side < 2; side++) {
        size_t length = strlen(names[side]);
        if (strncmp(word, names[side], length) != 0 || !word[length]) continue;
        d->directory[side] = word + length;
        return true;
    }
    char *end = NULL;
    if (strncmp(word, "--repeat=", 9) != 0) return false;
    long runs = strtol(word + 9, &end, 10);
    if (end == word + 9 || *end || runs < 1 || runs > MOST_RUNS) return false;
    d->runs = (int)runs;
    return true;
}

/* Files by name, inputs first, for the sides that have no directory. */
static bool name_files(struct driver *d, int argc, char **argv) {
    int n = 0;
    for (int side = 0; side < 2; side++) {
        for (int i = 0; i < d->count[side]; i++) {
            char **path = &d->arrays[side][i].path;
            if (d->directory[side])
                *path = format_path(d->directory[side], stems[side], i);
            else if (n < argc)
                *path = strdup(argv[n++]);
            if (!*path) return false;
        }
    }
    return n == argc;
}

static int usage_status(struct driver *d, int argc, char **argv) {
    int nfiles = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            print_usage(d, stdout);
            return 0;
        }
        if (strncmp(argv[i], "--", 2) != 0) {
            argv[nfiles++] = argv[i];
        } else if (!read_option(d, argv[i])) {
            fprintf(stderr, "%s: what is '%s'?\n", d->program, argv[i]);
            print_usage(d, stderr);
            return EXIT_USAGE;
        }
    }
    if (name_files(d, nfiles, argv)) return -1;
    print_usage(d, stderr);
    return EXIT_USAGE;
}

static bool describe_all(struct driver *d, int side, int count, const char *const *texts) {
    d->count[side] = count;
    d->arrays[side] = calloc((size_t)count + 1, sizeof *d->arrays[side]);
    for (int i = 0; i < count && d->arrays[side]; i++)
        describe(&d->arrays[side][i], texts[i]);
    return d->arrays[side] != NULL;
}

static void release(struct driver *d) {
    for (int side = 0; side < 2; side++) {
        for (int i = 0; i < d->count[side] && d->arrays[side]; i++) {
            free(d->arrays[side][i].path);
            free(d->arrays[side][i].temporary);
            free(d->arrays[side][i].data);
        }
        free(d->arrays[side]);
    }
    free(d->workspace);
}

int hlocc_rt_main(int argc, char **argv, int ninputs, const char *const *inputs, int noutputs,
                  const char *const *outputs, hlocc_rt_entry *entry, size_t workspace_size) {
    struct driver d = {.program = argc > 0 ? argv[0] : "program", .runs = 1};
    int status = EXIT_FILES;
    if (describe_all(&d, 0, ninputs, inputs) && describe_all(&d, 1, noutputs, outputs))
        status = usage_status(&d, argc, argv);
    if (status < 0) {
        status = 0;
        for (int i = 0; i < ninputs && !status; i++)
            status = read_array(&d.arrays[0][i]);
        if (!status) status = run(&d, entry, workspace_size);
        if (!status) status = write_results(&d);
    }
    release(&d);
    return status;
}
