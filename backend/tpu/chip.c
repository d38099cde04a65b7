#include "backend/tpu/chip.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* The built-in chips' files become part of the program as they are, so that an installed program
 * needs no data beside it. Paths are from the root of the tree, where the build runs. */
#define CHIP_FILE(symbol, path)                                                                    \
    __asm__(".section .rodata\n" #symbol ":\n.incbin \"" path "\"\n.byte 0\n.previous\n");         \
    extern const char symbol[] __attribute__((visibility("hidden")))

CHIP_FILE(tpu_chip_v2, "backend/tpu/chips/v2.json");
CHIP_FILE(tpu_chip_v3, "backend/tpu/chips/v3.json");
CHIP_FILE(tpu_chip_v4, "backend/tpu/chips/v4.json");
CHIP_FILE(tpu_chip_v5e, "backend/tpu/chips/v5e.json");

static const struct {
    const char *name, *text;
} chips[] = {{"v2", tpu_chip_v2}, {"v3", tpu_chip_v3}, {"v4", tpu_chip_v4}, {"v5e", tpu_chip_v5e}};

#define KIB ((int64_t)1 << 10)
#define MIB ((int64_t)1 << 20)
#define TIB ((int64_t)1 << 40)

static const struct {
    const char *name;
    size_t offset;
    int64_t least, most;
} fields[] = {
#define FIELD(name, least, most) {#name, offsetof(struct tpu_chip, name), least, most}
    FIELD(cores, 1, 64),
    FIELD(clock_mhz, 1, 100000),
    FIELD(mxus, 1, 4),
    FIELD(hbm_bytes, MIB, 16 * TIB),
    FIELD(hbm_gb_per_s, 1, 1000000),
    /* Vector addresses are 16 bits of 512-byte rows with registers for the rest. */
    FIELD(vmem_bytes, 64 * KIB, 1024 * MIB),
    FIELD(smem_bytes, 4 * KIB, 64 * MIB),
    FIELD(vector_registers, 16, 64),
    FIELD(links, 0, 64),
    FIELD(instruction_bundles, 256, 65536),
    FIELD(dma_latency_cycles, 1, 100000),
    FIELD(dma_issue_cycles, 1, 1000),
    FIELD(dma_granule_bytes, 1, 4096),
    FIELD(dma_queue, 1, 64),
#undef FIELD
};
enum { FIELD_COUNT = sizeof fields / sizeof *fields };

const char *tpu_chip_text(const char *name) {
    for (size_t i = 0; i < sizeof chips / sizeof *chips; i++)
        if (strcmp(chips[i].name, name) == 0) return chips[i].text;
    return NULL;
}

static int find_field(const char *name) {
    for (int i = 0; i < FIELD_COUNT; i++)
        if (strcmp(fields[i].name, name) == 0) return i;
    return -1;
}

static bool read_field(struct tpu_chip *chip, const cJSON *item, int field, char *why,
                       size_t size) {
    double value = item->valuedouble;
    if (!cJSON_IsNumber(item) || value != (double)(int64_t)value ||
        value < (double)fields[field].least || value > (double)fields[field].most) {
        snprintf(why, size, "%s must be a whole number from %lld to %lld", fields[field].name,
                 (long long)fields[field].least, (long long)fields[field].most);
        return false;
    }
    int64_t number = (int64_t)value;
    memcpy((char *)chip + fields[field].offset, &number, sizeof number);
    return true;
}

static bool read_name(struct tpu_chip *chip, const cJSON *item, char *why, size_t size) {
    if (cJSON_IsString(item) && *item->valuestring && strlen(item->valuestring) < sizeof chip->name)
        return strcpy(chip->name, item->valuestring), true;
    snprintf(why, size, "name must be a word of less than %zu bytes", sizeof chip->name);
    return false;
}

static bool read_object(struct tpu_chip *chip, const cJSON *object, char *why, size_t size) {
    bool seen[FIELD_COUNT + 1] = {0};
    const cJSON *item;
    cJSON_ArrayForEach(item, object) {
        bool is_name = strcmp(item->string, "name") == 0;
        int field = is_name ? FIELD_COUNT : find_field(item->string);
        if (field < 0 || seen[field]) {
            snprintf(why, size, "%s field %.40s", field < 0 ? "there is no" : "there are two of",
                     item->string);
            return false;
        }
        seen[field] = true;
        if (!(is_name ? read_name(chip, item, why, size)
                      : read_field(chip, item, field, why, size)))
            return false;
    }
    for (int i = 0; i <= FIELD_COUNT; i++) {
        if (seen[i]) continue;
        snprintf(why, size, "field %s is missing", i == FIELD_COUNT ? "name" : fields[i].name);
        return false;
    }
    return true;
}

bool tpu_chip_parse(struct tpu_chip *chip, const char *text, size_t length, char *why,
                    size_t size) {
    memset(chip, 0, sizeof *chip);
    cJSON *root = cJSON_ParseWithLength(text, length);
    bool ok = false;
    if (cJSON_IsObject(root))
        ok = read_object(chip, root, why, size);
    else
        snprintf(why, size, "a chip is a JSON object of its figures");
    cJSON_Delete(root);
    return ok;
}

bool tpu_chip_load(struct tpu_chip *chip, const char *name_or_path, char *why, size_t size) {
    const char *text = tpu_chip_text(name_or_path);
    if (text) return tpu_chip_parse(chip, text, strlen(text), why, size);
    FILE *file = fopen(name_or_path, "rb");
    if (!file) {
        snprintf(why, size, "%s (built-in chips are v2, v3, v4 and v5e)", strerror(errno));
        return false;
    }
    static const size_t most = TPU_CHIP_MOST_BYTES;
    char buffer[TPU_CHIP_MOST_BYTES + 1];
    size_t length = fread(buffer, 1, most + 1, file);
    bool failed = ferror(file) != 0;
    fclose(file);
    if (failed || length > most) {
        snprintf(why, size, failed ? "cannot be read" : "is too long for a chip file");
        return false;
    }
    return tpu_chip_parse(chip, buffer, length, why, size);
}
