/* Program files. One walk over the parts serves reading and writing: each `field` call moves one
 * number or string between the file and the program. */
#include <stdlib.h>
#include <string.h>

#include "runtime/tpu/internal.h"

static const char magic[8] = "HLOCCTPU";
enum { HEADER = 32 }; /* magic, version, 0, size, checksum */

struct block {
    struct block *next;
    max_align_t data[];
};

struct stream {
    bool writing, failed;
    const char *why;      /* a static string */
    const uint8_t *data;  /* reading */
    uint8_t *out;         /* writing */
    size_t at, size;      /* next byte; bytes there are, or allocated */
    struct block *blocks; /* reading: what the program is made of */
};

static void fail(struct stream *s, const char *why) {
    if (!s->failed) s->why = why;
    s->failed = true;
}

static bool reserve(struct stream *s, size_t count) {
    if (s->failed) return false;
    if (count <= s->size - s->at) return true;
    if (!s->writing) {
        fail(s, "the file ends early");
        return false;
    }
    size_t size = s->size + s->size / 2 + count;
    uint8_t *grown = realloc(s->out, size);
    if (!grown) {
        fail(s, "memory is out");
        return false;
    }
    s->out = grown;
    s->size = size;
    return true;
}

static void *allocate(struct stream *s, size_t count, size_t size) {
    struct block *block = NULL;
    if (!s->failed && count <= SIZE_MAX / 2 / size) {
        block = calloc(1, sizeof *block + count * size + 1);
    }
    if (!block) {
        fail(s, "memory is out");
        return NULL;
    }
    block->next = s->blocks;
    s->blocks = block;
    return block->data;
}

static uint64_t number(struct stream *s, uint64_t value, int bytes) {
    if (!reserve(s, (size_t)bytes)) return 0;
    uint64_t result = 0;
    for (int i = 0; i < bytes; i++) {
        if (s->writing) s->out[s->at + (size_t)i] = (uint8_t)(value >> 8 * i);
        if (!s->writing) result |= (uint64_t)s->data[s->at + (size_t)i] << 8 * i;
    }
    s->at += (size_t)bytes;
    return s->writing ? value : result;
}

static void field_u32(struct stream *s, uint32_t *value) {
    *value = (uint32_t)number(s, *value, 4);
}
static void field_s32(struct stream *s, int32_t *value) {
    *value = (int32_t)(uint32_t)number(s, (uint32_t)*value, 4);
}
static void field_u64(struct stream *s, uint64_t *value) {
    *value = number(s, *value, 8);
}
static void field_s64(struct stream *s, int64_t *value) {
    *value = (int64_t)number(s, (uint64_t)*value, 8);
}

static void field_bytes(struct stream *s, void *bytes, size_t count) {
    if (!reserve(s, count)) return;
    if (s->writing) {
        memcpy(s->out + s->at, bytes, count);
    } else {
        memcpy(bytes, s->data + s->at, count);
    }
    s->at += count;
}

static void field_string(struct stream *s, const char **text) {
    uint32_t length = s->writing ? (uint32_t)strlen(*text) : 0;
    field_u32(s, &length);
    if (s->writing) {
        field_bytes(s, (void *)*text, length);
        return;
    }
    *text = "";
    if (!reserve(s, length)) return;
    char *copy = allocate(s, (size_t)length + 1, 1);
    if (!copy) return;
    field_bytes(s, copy, length);
    if (memchr(copy, 0, length)) fail(s, "a string holds a NUL byte");
    *text = copy;
}

/* The number of elements of a list, each of at least `least` bytes in the file, and their array. */
static void *field_list(struct stream *s, uint32_t *count, void *array, size_t size, size_t least) {
    field_u32(s, count);
    if (s->writing) return array;
    if (s->failed || *count > (s->size - s->at) / least) {
        fail(s, "a list is longer than the file");
        *count = 0;
    }
    return allocate(s, *count, size);
}

static void walk_chip(struct stream *s, struct tpu_chip *chip) {
    field_bytes(s, chip->name, sizeof chip->name);
#define X(name, least, most, text) field_s64(s, &chip->name);
#include "runtime/tpu/chip.def"
#undef X
}

static void walk_code(struct stream *s, struct tpu_program *p) {
    p->code = field_list(s, &p->bundles, p->code, sizeof *p->code, TPU_BUNDLE_BYTES);
    for (uint32_t i = 0; i < p->bundles && !s->failed; i++) {
        uint8_t bytes[TPU_BUNDLE_BYTES];
        if (s->writing) tpu_encode(&p->code[i], bytes);
        field_bytes(s, bytes, sizeof bytes);
        const char *why = s->writing || s->failed ? NULL : tpu_decode(bytes, &p->code[i]);
        if (why) fail(s, why);
    }
}

static void walk_array(struct stream *s, struct tpu_array *a) {
    field_bytes(s, a->type, sizeof a->type);
    field_s32(s, &a->host_bytes);
    field_s32(s, &a->bits);
    field_s32(s, &a->planes);
    field_s32(s, &a->is_signed);
    field_s32(s, &a->rank);
    if (a->rank < 0 || a->rank > TPU_MAX_RANK) fail(s, "a rank out of range");
    for (int d = 0; d < a->rank && !s->failed; d++) {
        field_s64(s, &a->dims[d]);
        field_s32(s, &a->minor_to_major[d]);
    }
    field_s32(s, &a->ntiles);
    if (a->ntiles < 0 || a->ntiles > TPU_MAX_TILES) fail(s, "too many tiles");
    for (int t = 0; t < a->ntiles && !s->failed; t++) {
        field_s32(s, &a->tiles[t].rank);
        if (a->tiles[t].rank < 1 || a->tiles[t].rank > TPU_MAX_TILE_RANK) {
            fail(s, "a tile's rank is out of range");
        }
        for (int d = 0; d < a->tiles[t].rank && !s->failed; d++)
            field_s64(s, &a->tiles[t].dims[d]);
    }
    field_u64(s, &a->address);
    field_u64(s, &a->plane_bytes);
}

static void walk_constants(struct stream *s, struct tpu_program *p) {
    p->constant = field_list(s, &p->constants, p->constant, sizeof *p->constant, 16);
    for (uint32_t i = 0; i < p->constants && !s->failed; i++) {
        struct tpu_constant *c = &p->constant[i];
        field_u64(s, &c->address);
        field_u64(s, &c->size);
        if (!s->writing) {
            if (!reserve(s, c->size)) return;
            c->data = allocate(s, c->size, 1);
        }
        if (!s->failed) field_bytes(s, (void *)c->data, c->size);
    }
}

static void walk_plan(struct stream *s, struct tpu_program *p) {
    p->buffer = field_list(s, &p->buffers, p->buffer, sizeof *p->buffer, 24);
    for (uint32_t i = 0; i < p->buffers && !s->failed; i++) {
        field_string(s, &p->buffer[i].name);
        field_u32(s, &p->buffer[i].space);
        field_u64(s, &p->buffer[i].address);
        field_u64(s, &p->buffer[i].size);
    }
    p->source = field_list(s, &p->sources, p->source, sizeof *p->source, 16);
    for (uint32_t i = 0; i < p->sources && !s->failed; i++) {
        field_string(s, &p->source[i].name);
        field_string(s, &p->source[i].op_name);
        field_string(s, &p->source[i].file);
        field_u32(s, &p->source[i].line);
    }
    p->line = field_list(s, &p->lines, p->line, sizeof *p->line, 8);
    for (uint32_t i = 0; i < p->lines && !s->failed; i++) {
        field_u32(s, &p->line[i].bundle);
        field_u32(s, &p->line[i].source);
    }
}

static void walk_program(struct stream *s, struct tpu_program *p) {
    walk_chip(s, &p->chip);
    field_u32(s, &p->cores);
    field_u64(s, &p->hbm_bytes);
    field_u64(s, &p->vmem_bytes);
    walk_code(s, p);
    p->smem = field_list(s, &p->smem_words, p->smem, sizeof *p->smem, 4);
    for (uint32_t i = 0; i < p->smem_words && !s->failed; i++)
        field_u32(s, &p->smem[i]);
    walk_constants(s, p);
    p->param = field_list(s, &p->params, p->param, sizeof *p->param, 60);
    for (uint32_t i = 0; i < p->params && !s->failed; i++)
        walk_array(s, &p->param[i]);
    p->result = field_list(s, &p->results, p->result, sizeof *p->result, 60);
    for (uint32_t i = 0; i < p->results && !s->failed; i++)
        walk_array(s, &p->result[i]);
    walk_plan(s, p);
}

/* FNV-1a on 64-bit words, the last one filled with zeros: finds damage, no forgery. */
static uint64_t checksum(const uint8_t *data, size_t size) {
    uint64_t sum = 0xcbf29ce484222325 ^ size;
    for (size_t i = 0; i < size; i += 8) {
        uint64_t word = 0;
        memcpy(&word, data + i, size - i < 8 ? size - i : 8);
        sum = (sum ^ word) * 0x100000001b3;
        sum ^= sum >> 32;
    }
    return sum;
}

uint8_t *tpu_program_write(const struct tpu_program *program, size_t *size,
                           struct tpu_error *error) {
    if (tpu_program_check(program, error) != 0) return NULL;
    struct stream s = {.writing = true};
    struct tpu_program copy = *program; /* the walk takes it writable, and writes nothing */
    uint32_t version = TPU_FILE_VERSION, zero = 0;
    uint64_t total = 0, sum = 0;
    for (int pass = 0; pass < 2; pass++) { /* the header again, once its numbers are known */
        s.at = 0;
        field_bytes(&s, (void *)magic, sizeof magic);
        field_u32(&s, &version);
        field_u32(&s, &zero);
        field_u64(&s, &total);
        field_u64(&s, &sum);
        if (pass || s.failed) break;
        walk_program(&s, &copy);
        if (s.failed) break;
        total = s.at;
        sum = checksum(s.out + HEADER, s.at - HEADER);
    }
    if (s.failed) {
        free(s.out);
        tpu_fail(error, "%s", s.why);
        return NULL;
    }
    *size = total;
    return s.out;
}

static void free_blocks(struct block *block) {
    while (block) {
        struct block *next = block->next;
        free(block);
        block = next;
    }
}

static void read_header(struct stream *s) {
    char start[sizeof magic] = {0};
    uint32_t version = 0, zero = 0;
    uint64_t total = 0, sum = 0;
    field_bytes(s, start, sizeof start);
    if (s->failed || memcmp(start, magic, sizeof magic) != 0) {
        s->failed = false;
        fail(s, "this is no TPU program file");
        return;
    }
    field_u32(s, &version);
    field_u32(s, &zero);
    field_u64(s, &total);
    field_u64(s, &sum);
    if (!s->failed && version != TPU_FILE_VERSION) fail(s, "the file has another version");
    if (zero) fail(s, "reserved bytes of the header are not 0");
    if (!s->failed && total != s->size) fail(s, "the file is cut short or has bytes to spare");
    if (!s->failed && sum != checksum(s->data + HEADER, s->size - HEADER)) {
        fail(s, "the checksum is wrong: the file is damaged");
    }
}

struct tpu_program *tpu_program_read(const void *data, size_t size, struct tpu_error *error) {
    struct stream s = {.data = data, .size = size};
    read_header(&s);
    struct tpu_program *program = s.failed ? NULL : allocate(&s, 1, sizeof *program);
    if (program) {
        walk_program(&s, program);
        if (!s.failed && s.at != size) fail(&s, "bytes follow the end of the program");
        program->storage = s.blocks;
    }
    if (s.failed) {
        tpu_fail(error, "%s", s.why);
    } else if (tpu_program_check(program, error) == 0) {
        return program;
    }
    free_blocks(s.blocks);
    return NULL;
}

void tpu_program_free(struct tpu_program *program) {
    if (program) free_blocks(program->storage);
}
