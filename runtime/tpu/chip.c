#include "runtime/tpu/chip.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The built-in chips' files become part of the program as they are, so that an installed program
 * needs no data beside it. Paths are from the root of the tree, where the build runs. */
#define CHIP_FILE(symbol, path)                                                                    \
    __asm__(".section .rodata\n" #symbol ":\n.incbin \"" path "\"\n.byte 0\n.previous\n");         \
    extern const char symbol[] __attribute__((visibility("hidden")))

CHIP_FILE(tpu_chip_v2, "runtime/tpu/chips/v2.json");
CHIP_FILE(tpu_chip_v3, "runtime/tpu/chips/v3.json");
CHIP_FILE(tpu_chip_v4, "runtime/tpu/chips/v4.json");
CHIP_FILE(tpu_chip_v5e, "runtime/tpu/chips/v5e.json");

static const struct {
    const char *name, *text;
} chips[] = {{"v2", tpu_chip_v2}, {"v3", tpu_chip_v3}, {"v4", tpu_chip_v4}, {"v5e", tpu_chip_v5e}};

static const struct {
    const char *name;
    size_t offset;
    int64_t least, most;
} fields[] = {
#define X(name, least, most, text) {#name, offsetof(struct tpu_chip, name), least, most},
#include "runtime/tpu/chip.def"
#undef X
};
enum { FIELD_COUNT = sizeof fields / sizeof *fields };

static bool refuse(char *why, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static bool refuse(char *why, size_t size, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(why, size, format, args);
    va_end(args);
    return false;
}

const char *tpu_chip_text(const char *name) {
    for (size_t i = 0; i < sizeof chips / sizeof *chips; i++) {
        if (strcmp(chips[i].name, name) == 0) return chips[i].text;
    }
    return NULL;
}

static int find_field(const char *name) {
    for (int i = 0; i < FIELD_COUNT; i++) {
        if (strcmp(fields[i].name, name) == 0) return i;
    }
    return -1;
}

static int64_t get_field(const struct tpu_chip *chip, int field) {
    int64_t value;
    memcpy(&value, (const char *)chip + fields[field].offset, sizeof value);
    return value;
}

static bool read_field(struct tpu_chip *chip, const cJSON *item, int field, char *why,
                       size_t size) {
    double value = item->valuedouble;
    if (!cJSON_IsNumber(item) || value != floor(value) || value < (double)fields[field].least ||
        value > (double)fields[field].most) {
        return refuse(why, size, "%s must be a whole number from %lld to %lld", fields[field].name,
                      (long long)fields[field].least, (long long)fields[field].most);
    }
    int64_t number = (int64_t)value;
    memcpy((char *)chip + fields[field].offset, &number, sizeof number);
    return true;
}

/* A word of printable characters: it stands in reports, listings and file names. */
static bool name_is_word(const char *name) {
    if (!*name) return false;
    for (; *name; name++) {
        if (*name <= ' ' || *name > '~' || *name == '"' || *name == '\\') return false;
    }
    return true;
}

static bool read_name(struct tpu_chip *chip, const cJSON *item, char *why, size_t size) {
    if (cJSON_IsString(item) && strlen(item->valuestring) < sizeof chip->name &&
        name_is_word(item->valuestring)) {
        memset(chip->name, 0, sizeof chip->name);
        strcpy(chip->name, item->valuestring);
        return true;
    }
    return refuse(why, size, "name must be a word of less than %zu bytes", sizeof chip->name);
}

bool tpu_chip_check(const struct tpu_chip *chip, char *why, size_t size) {
    if (!memchr(chip->name, 0, sizeof chip->name) || !name_is_word(chip->name)) {
        return refuse(why, size, "name must be a word of less than %zu bytes", sizeof chip->name);
    }
    for (int i = 0; i < FIELD_COUNT; i++) {
        int64_t value = get_field(chip, i);
        if (value >= fields[i].least && value <= fields[i].most) continue;
        return refuse(why, size, "%s must be a whole number from %lld to %lld", fields[i].name,
                      (long long)fields[i].least, (long long)fields[i].most);
    }
    if (chip->hbm_bytes % 512 || chip->vmem_bytes % 512 || chip->smem_bytes % 4) {
        return refuse(why, size, "HBM and VMEM are whole rows of 512 bytes, SMEM whole words");
    }
    if (chip->dma_granule_bytes & (chip->dma_granule_bytes - 1)) {
        return refuse(why, size, "dma_granule_bytes must be a power of two");
    }
    /* A branch and what follows it may lie in two overlays. */
    if (chip->instruction_bundles < 2 * chip->overlay_bundles) {
        return refuse(why, size, "instruction_bundles must hold two overlays or more");
    }
    return true;
}

static bool read_object(struct tpu_chip *chip, const cJSON *object, char *why, size_t size);

/* The built-in chip that gives what the object leaves out. */
static bool read_like(struct tpu_chip *chip, const cJSON *like, char *why, size_t size) {
    const char *text = cJSON_IsString(like) ? tpu_chip_text(like->valuestring) : NULL;
    if (!text) return refuse(why, size, "like must be one of v2, v3, v4 and v5e");
    return tpu_chip_parse(chip, text, strlen(text), why, size);
}

static bool read_object(struct tpu_chip *chip, const cJSON *object, char *why, size_t size) {
    bool seen[FIELD_COUNT + 1] = {0};
    const cJSON *item, *like = cJSON_GetObjectItemCaseSensitive(object, "like");
    if (like && !read_like(chip, like, why, size)) return false;
    cJSON_ArrayForEach(item, object) {
        if (item == like) continue;
        bool is_name = strcmp(item->string, "name") == 0;
        int field = is_name ? FIELD_COUNT : find_field(item->string);
        if (field < 0) return refuse(why, size, "there is no field %.40s", item->string);
        if (seen[field]) return refuse(why, size, "there are two of field %.40s", item->string);
        seen[field] = true;
        if (!(is_name ? read_name(chip, item, why, size)
                      : read_field(chip, item, field, why, size))) {
            return false;
        }
    }
    for (int i = 0; i <= FIELD_COUNT; i++) {
        if (seen[i] || (like && i < FIELD_COUNT)) continue;
        return refuse(why, size, "field %s is missing", i == FIELD_COUNT ? "name" : fields[i].name);
    }
    return tpu_chip_check(chip, why, size);
}

bool tpu_chip_parse(struct tpu_chip *chip, const char *text, size_t length, char *why,
                    size_t size) {
    memset(chip, 0, sizeof *chip);
    cJSON *root = cJSON_ParseWithLength(text, length);
    bool ok = cJSON_IsObject(root) ? read_object(chip, root, why, size)
                                   : refuse(why, size, "a chip is a JSON object of its figures");
    cJSON_Delete(root);
    return ok;
}

bool tpu_chip_load(struct tpu_chip *chip, const char *name_or_path, char *why, size_t size) {
    const char *text = tpu_chip_text(name_or_path);
    if (text) return tpu_chip_parse(chip, text, strlen(text), why, size);
    FILE *file = fopen(name_or_path, "rb");
    if (!file) {
        return refuse(why, size, "%s (built-in chips are v2, v3, v4 and v5e)", strerror(errno));
    }
    static const size_t most = TPU_CHIP_MOST_BYTES;
    char buffer[TPU_CHIP_MOST_BYTES + 1];
    size_t length = fread(buffer, 1, most + 1, file);
    bool failed = ferror(file) != 0;
    fclose(file);
    if (failed || length > most) {
        return refuse(why, size, failed ? "cannot be read" : "is too long for a chip file");
    }
    return tpu_chip_parse(chip, buffer, length, why, size);
}

char *tpu_chip_print(const struct tpu_chip *chip) {
    size_t size = 256 + FIELD_COUNT * 64, used;
    char *text = malloc(size);
    if (!text) return NULL;
    used = (size_t)snprintf(text, size, "{\"name\": \"%s\"", chip->name);
    for (int i = 0; i < FIELD_COUNT; i++) {
        used += (size_t)snprintf(text + used, size - used, ", \"%s\": %lld", fields[i].name,
                                 (long long)get_field(chip, i));
    }
    snprintf(text + used, size - used, "}");
    return text;
}
