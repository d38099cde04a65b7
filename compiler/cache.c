#include "compiler/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "compiler/sha256.h"
#include "ir/literal.h"
#include "ir/print.h"

#ifndef HLOCC_VERSION
#define HLOCC_VERSION "unknown"
#endif

/* ---- the key ---- */

/* With the size in front, so that texts beside each other cannot be taken for others. */
static void add_bytes(struct sha256 *hash, const void *data, size_t size) {
    uint64_t length = size;
    sha256_add(hash, &length, sizeof length);
    sha256_add(hash, data, size);
}

static void add_text(struct sha256 *hash, const char *text) {
    add_bytes(hash, text ? text : "", text ? strlen(text) + 1 : 0);
}

static void add_number(struct sha256 *hash, int64_t number) {
    sha256_add(hash, &number, sizeof number);
}

/* The linker's number of the file that this function is in, which changes with its code. */
static int add_build(struct dl_phdr_info *info, size_t size, void *data) {
    uintptr_t here = (uintptr_t)&add_build;
    bool is_ours = false;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        uintptr_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        is_ours |= info->dlpi_phdr[i].p_type == PT_LOAD && here >= start &&
                   here - start < info->dlpi_phdr[i].p_memsz;
    }
    for (int i = 0; is_ours && i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_NOTE)
            add_bytes(data, (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr),
                      info->dlpi_phdr[i].p_memsz);
    return is_ours;
}

static void add_literal(struct sha256 *hash, const struct literal *literal) {
    bool tuple = shape_is_tuple(literal->shape);
    for (int i = 0; tuple && i < literal->shape->ntuple; i++)
        add_literal(hash, literal->elements[i]);
    if (!tuple) add_bytes(hash, literal->data, literal->size);
}

static bool add_module(struct sha256 *hash, struct hlo_module *module, bool places) {
    struct print_options print = print_options_full();
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) return false;
    print.max_constant = 0; /* their bytes follow */
    print.metadata = places;
    module_print(out, module, &print);
    bool ok = fclose(out) == 0;
    if (ok) add_bytes(hash, text, size);
    free(text);
    FOR_EACH_COMPUTATION(c, module)
    FOR_EACH_INSTR(instr, c) {
        if (!instr->literal) continue;
        if (literal_has_elided(instr->literal)) return false;
        add_literal(hash, instr->literal);
    }
    return ok;
}

static void add_options(struct sha256 *hash, const struct target_options *options,
                        const struct cpu_options *cpu) {
    char *machine = cpu_machine_text(cpu);
    add_text(hash, machine);
    free(machine);
    add_text(hash, cpu->symbol);
    add_text(hash, cpu->debug_directory);
    add_number(hash, cpu->opt_level);
    add_number(hash, cpu_threads(cpu));
    add_number(hash, (int64_t)cpu->seed);
    add_number(hash, cpu->in_parts);
    add_number(hash, options->matmul_precision);
    add_text(hash, options->pipeline.passes);
    add_bytes(hash, options->pipeline.disabled, sizeof options->pipeline.disabled);
    for (int i = 0; i < cpu->nfunctions; i++)
        add_text(hash, cpu->functions[i].name);
}

bool cache_key_of(struct hlo_module *module, const struct target_options *options,
                  const struct cpu_options *cpu, enum cpu_output output, struct cache_key *key) {
    const struct pipeline_options *pipeline = &options->pipeline;
    struct sha256 hash;
    uint8_t digest[32];
    if (pipeline->dump_dir || pipeline->print_after || pipeline->print_before || pipeline->verify)
        return false;
    sha256_init(&hash);
    add_text(&hash, HLOCC_VERSION);
    if (!dl_iterate_phdr(add_build, &hash)) return false;
    add_options(&hash, options, cpu);
    add_number(&hash, output);
    if (!add_module(&hash, module, cpu->debug_directory != NULL)) return false;
    sha256_end(&hash, digest);
    for (int i = 0; i < 32; i++)
        snprintf(key->name + 2 * i, 3, "%02x", digest[i]);
    return true;
}

/* ---- entries ---- */

static const char ending[] = ".hlocc", temporary[] = ".new-";
enum { MOST_PARTS = 1024, OLD_SECONDS = 3600 };

/* At the start of an entry; the objects follow, their sizes first. */
struct head {
    char magic[8];
    uint8_t digest[32]; /* of all that follows */
    uint64_t nparts, workspace_size;
    struct cpu_stats stats;
};
static const char magic[8] = "hlocc\1\n";

static void digest_of(const struct bytes *entry, uint8_t digest[32]) {
    struct sha256 hash;
    size_t from = offsetof(struct head, digest) + sizeof((struct head *)0)->digest;
    sha256_init(&hash);
    sha256_add(&hash, entry->data + from, entry->size - from);
    sha256_end(&hash, digest);
}

static struct cpu_part part_of(const struct cpu_code *code, int i) {
    return i == 0 ? (struct cpu_part){code->data, code->size} : code->more[i - 1];
}

static bool pack(const struct cpu_code *code, struct bytes *entry) {
    int nparts = code->nmore + 1;
    struct head head = {
        .nparts = (uint64_t)nparts, .workspace_size = code->workspace_size, .stats = code->stats};
    memcpy(head.magic, magic, sizeof magic);
    *entry = (struct bytes){.size = sizeof head + (size_t)nparts * sizeof(uint64_t)};
    for (int i = 0; i < nparts; i++)
        entry->size += part_of(code, i).size;
    entry->data = calloc(1, entry->size);
    if (!entry->data) return false;
    uint8_t *to = entry->data + sizeof head;
    for (int i = 0; i < nparts; i++, to += sizeof(uint64_t))
        memcpy(to, &(uint64_t){part_of(code, i).size}, sizeof(uint64_t));
    for (int i = 0; i < nparts; i++) {
        struct cpu_part part = part_of(code, i);
        memcpy(to, part.data, part.size);
        to += part.size;
    }
    memcpy(entry->data, &head, sizeof head);
    digest_of(entry, head.digest);
    memcpy(entry->data, &head, sizeof head);
    return true;
}

/* One more byte than the part has, zero, as cpu_compile gives it. */
static bool copy_part(struct cpu_part *part, const struct bytes *entry, size_t at, uint64_t size) {
    if (at > entry->size || size > entry->size - at) return false;
    *part = (struct cpu_part){calloc(1, size + 1), size};
    if (part->data) memcpy(part->data, entry->data + at, size);
    return part->data != NULL;
}

/* Trusts nothing that the file says, whatever its checksum. */
static bool unpack(const struct bytes *entry, struct cpu_code *code) {
    struct head head;
    uint8_t digest[32];
    memset(code, 0, sizeof *code);
    if (entry->size < sizeof head) return false;
    memcpy(&head, entry->data, sizeof head);
    digest_of(entry, digest);
    if (memcmp(head.magic, magic, sizeof magic) || memcmp(head.digest, digest, sizeof digest) ||
        head.nparts < 1 || head.nparts > MOST_PARTS ||
        head.nparts > (entry->size - sizeof head) / sizeof(uint64_t))
        return false;
    code->workspace_size = head.workspace_size;
    code->stats = head.stats;
    code->more = calloc(head.nparts, sizeof *code->more);
    bool ok = code->more != NULL;
    size_t at = sizeof head + head.nparts * sizeof(uint64_t);
    for (size_t i = 0; i < head.nparts && ok; i++) {
        uint64_t size;
        struct cpu_part part;
        memcpy(&size, entry->data + sizeof head + i * sizeof size, sizeof size);
        ok = copy_part(&part, entry, at, size);
        if (!ok) break;
        at += size;
        if (i == 0) {
            code->data = part.data;
            code->size = part.size;
        } else {
            code->more[code->nmore++] = part;
        }
    }
    if (!ok) cpu_code_free(code);
    return ok;
}

bool cache_find(const char *directory, const struct cache_key *key, struct cpu_code *code) {
    char *path = text_format("%s/%s%s", directory, key->name, ending);
    struct bytes entry = {0};
    struct fault fault;
    bool ok = access(path, R_OK) == 0 && file_read(path, &entry, &fault) && unpack(&entry, code);
    if (ok) utimensat(AT_FDCWD, path, NULL, 0); /* used just now */
    free(entry.data);
    free(path);
    return ok;
}

/* ---- keeping the directory small ---- */

struct kept {
    char *path;
    int64_t bytes;
    struct timespec used;
};

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), size = strlen(end);
    return length >= size && strcmp(text + length - size, end) == 0;
}

static int by_use(const void *a, const void *b) {
    const struct timespec *x = &((const struct kept *)a)->used,
                          *y = &((const struct kept *)b)->used;
    if (x->tv_sec != y->tv_sec) return x->tv_sec < y->tv_sec ? -1 : 1;
    return (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

/* Files of the cache's own; what a process that died had begun to write is removed. */
static int list_entries(const char *directory, struct kept **list) {
    int count = 0, capacity = 0;
    DIR *stream = opendir(directory);
    *list = NULL;
    for (struct dirent *d; stream && (d = readdir(stream));) {
        bool entry = strlen(d->d_name) == 64 + sizeof ending - 1 && ends_with(d->d_name, ending);
        bool begun = strncmp(d->d_name, temporary, sizeof temporary - 1) == 0;
        struct stat info;
        if (!entry && !begun) continue;
        char *path = text_format("%s/%s", directory, d->d_name);
        bool is_file = lstat(path, &info) == 0 && S_ISREG(info.st_mode);
        if (is_file && begun && info.st_mtime < time(NULL) - OLD_SECONDS) unlink(path);
        if (!is_file || begun) {
            free(path);
            continue;
        }
        if (count == capacity) {
            capacity = 2 * capacity + 64;
            struct kept *more = realloc(*list, (size_t)capacity * sizeof *more);
            if (!more) {
                free(path);
                break;
            }
            *list = more;
        }
        (*list)[count++] = (struct kept){path, info.st_size, info.st_mtim};
    }
    if (stream) closedir(stream);
    return count;
}

static void drop_oldest(const char *directory, int64_t most_bytes) {
    struct kept *list;
    int count = list_entries(directory, &list);
    int64_t total = 0;
    for (int i = 0; i < count; i++)
        total += list[i].bytes;
    if (count) qsort(list, (size_t)count, sizeof *list, by_use);
    for (int i = 0; i < count; i++) {
        if (total > most_bytes && unlink(list[i].path) == 0) total -= list[i].bytes;
        free(list[i].path);
    }
    free(list);
}

/* Written beside its place under a name of its own, then renamed. */
static bool write_entry(const char *directory, const char *path, const struct bytes *entry,
                        struct fault *fault) {
    char *name = text_format("%s/%sXXXXXX", directory, temporary);
    int fd = mkstemp(name);
    bool ok = fd >= 0;
    for (size_t at = 0; ok && at < entry->size;) {
        ssize_t written = write(fd, entry->data + at, entry->size - at);
        ok = written > 0 || (written < 0 && errno == EINTR);
        if (written > 0) at += (size_t)written;
    }
    if (fd >= 0 && close(fd) != 0) ok = false;
    ok = ok && rename(name, path) == 0;
    if (!ok) fault_set(fault, "%s: %s", directory, strerror(errno));
    if (!ok && fd >= 0) unlink(name);
    free(name);
    return ok;
}

bool cache_store(const char *directory, const struct cache_key *key, const struct cpu_code *code,
                 int64_t most_bytes, struct fault *fault) {
    struct bytes entry;
    if (!directory_make(directory, fault)) return false;
    if (!pack(code, &entry)) return fault_set(fault, "out of memory");
    char *path = text_format("%s/%s%s", directory, key->name, ending);
    bool ok = write_entry(directory, path, &entry, fault);
    if (ok) drop_oldest(directory, most_bytes);
    free(path);
    free(entry.data);
    return ok;
}
