#include "compiler/case.h"

#include <cjson/cJSON.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compiler/compare.h"
#include "compiler/load.h"
#include "compiler/npy.h"
#include "compiler/partitions.h"
#include "ir/eval.h"
#include "ir/parse.h"

/* ---- case.json ---- */

static bool read_targets(const cJSON *list, struct case_info *info, struct fault *fault) {
    if (!cJSON_IsArray(list)) return fault_set(fault, "\"targets\" is no list");
    info->targets = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, list) {
        if (!cJSON_IsString(item)) return fault_set(fault, "\"targets\" holds no names");
        int target = target_from_name(item->valuestring);
        if (target >= 0) info->targets |= 1u << target;
    }
    return true;
}

static bool read_fields(const cJSON *json, struct case_info *info, struct fault *fault) {
    if (!cJSON_IsObject(json)) return fault_set(fault, "is no JSON object");
    const cJSON *tolerance = cJSON_GetObjectItemCaseSensitive(json, "tolerance");
    if (tolerance && !cJSON_IsNull(tolerance)) {
        if (!cJSON_IsNumber(tolerance) || !(tolerance->valuedouble >= 0)) {
            return fault_set(fault, "\"tolerance\" is no number from 0 and no null");
        }
        info->tolerance = tolerance->valuedouble;
    }
    const cJSON *partitions = cJSON_GetObjectItemCaseSensitive(json, "partitions");
    if (partitions) {
        double n = cJSON_IsNumber(partitions) ? partitions->valuedouble : 0;
        if (!(n >= 1 && n <= 1024)) return fault_set(fault, "\"partitions\" is out of range");
        info->partitions = (int64_t)n;
    }
    const cJSON *targets = cJSON_GetObjectItemCaseSensitive(json, "targets");
    return !targets || cJSON_IsNull(targets) || read_targets(targets, info, fault);
}

bool case_read_info(const char *directory, struct case_info *info, struct fault *fault) {
    *info = (struct case_info){.tolerance = -1, .partitions = 1, .targets = ~0u};
    char *path = text_format("%s/case.json", directory);
    struct bytes bytes;
    bool exists = access(path, F_OK) == 0;
    bool ok = !exists || file_read(path, &bytes, fault);
    free(path);
    if (!exists || !ok) return ok;
    cJSON *json = cJSON_ParseWithLength((const char *)bytes.data, bytes.size);
    ok = read_fields(json, info, fault);
    cJSON_Delete(json);
    free(bytes.data);
    return ok;
}

/* ---- finding ---- */

static void list_add(struct case_list *list, const char *path) {
    if (list->count == list->capacity) {
        list->capacity = list->capacity ? 2 * list->capacity : 64;
        list->paths = realloc(list->paths, (size_t)list->capacity * sizeof *list->paths);
        if (!list->paths) abort();
    }
    list->paths[list->count++] = text_format("%s", path);
}

static bool find_below(struct case_list *list, const char *path, const char *program, int depth,
                       struct fault *fault) {
    char *file = text_format("%s/%s", path, program);
    bool is_case = access(file, F_OK) == 0;
    free(file);
    if (is_case) {
        list_add(list, path);
        return true;
    }
    DIR *directory = opendir(path);
    if (!directory) return fault_set(fault, "%s: %s", path, strerror(errno));
    bool ok = true;
    struct dirent *entry;
    while (ok && depth < 32 && (entry = readdir(directory))) {
        if (entry->d_name[0] == '.') continue;
        char *below = text_format("%s/%s", path, entry->d_name);
        struct stat status;
        if (stat(below, &status) == 0 && S_ISDIR(status.st_mode)) {
            ok = find_below(list, below, program, depth + 1, fault);
        }
        free(below);
    }
    closedir(directory);
    return ok;
}

bool case_find(struct case_list *list, const char *path, const char *program, struct fault *fault) {
    char *clean = text_format("%s", path);
    for (size_t n = strlen(clean); n > 1 && clean[n - 1] == '/';)
        clean[--n] = 0;
    bool ok = find_below(list, clean, program, 0, fault);
    free(clean);
    return ok;
}

static int by_path(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void case_list_sort(struct case_list *list) {
    if (list->count) qsort(list->paths, (size_t)list->count, sizeof *list->paths, by_path);
    int kept = 0;
    for (int i = 0; i < list->count; i++) {
        if (kept && strcmp(list->paths[kept - 1], list->paths[i]) == 0) {
            free(list->paths[i]);
        } else {
            list->paths[kept++] = list->paths[i];
        }
    }
    list->count = kept;
}

void case_list_free(struct case_list *list) {
    for (int i = 0; i < list->count; i++)
        free(list->paths[i]);
    free(list->paths);
    memset(list, 0, sizeof *list);
}

/* ---- running ---- */

/* Flat parameter `i` is read as an array of shape shapes[i], which is NULL where that failed. */
static struct literal **read_inputs(const char *directory, int count,
                                    const struct shape *const *shapes, FILE *out) {
    struct literal **flat = calloc((size_t)count + 1, sizeof *flat);
    for (int i = 0; flat && i < count; i++) {
        struct fault fault;
        char *path = text_format("%s/in.%d.npy", directory, i);
        flat[i] = shapes[i] ? npy_read(path, shapes[i], &fault) : NULL;
        if (shapes[i] && !flat[i]) fprintf(out, "  %s: %s\n", path, fault.text);
        free(path);
        if (!flat[i]) {
            literals_free(flat, i);
            return NULL;
        }
    }
    return flat;
}

struct literal **case_read_inputs(const char *directory, const struct hlo_module *module,
                                  FILE *out) {
    int count = module_flat_parameters(module);
    const struct shape **shapes = calloc((size_t)count + 1, sizeof *shapes);
    for (int i = 0; shapes && i < count; i++)
        shapes[i] = module_flat_parameter(module, i);
    struct literal **flat = shapes ? read_inputs(directory, count, shapes, out) : NULL;
    free(shapes);
    return flat;
}

/* The same with whole arrays where the program is of parts. */
static struct literal **read_whole_inputs(const char *directory, struct hlo_module *module,
                                          int partitions, struct diag *diag, FILE *out) {
    int count = module_flat_parameters(module);
    const struct shape **shapes = calloc((size_t)count + 1, sizeof *shapes);
    for (int i = 0; shapes && i < count; i++)
        shapes[i] = partitions_parameter(module, i, partitions, diag);
    struct literal **flat = shapes ? read_inputs(directory, count, shapes, out) : NULL;
    free(shapes);
    return flat;
}

static void print_mismatch(FILE *out, int output, const struct shape *shape,
                           const struct comparison *c, double tolerance) {
    int64_t index[SHAPE_MAX_RANK], rest = c->index;
    for (int d = shape->rank - 1; d >= 0; d--) {
        index[d] = rest % shape->dims[d];
        rest /= shape->dims[d];
    }
    fprintf(out, "  output %d [", output);
    for (int d = 0; d < shape->rank; d++)
        fprintf(out, "%s%" PRId64, d ? "," : "", index[d]);
    fprintf(out, "]: got %s, want %s", c->got, c->want);
    if (tolerance > 0) {
        fprintf(out, "; error %.3g, allowed %.3g (tolerance %g)", c->error, c->allowed, tolerance);
    }
    fprintf(out, "\n");
}

static bool check_array(int index, const struct literal *got, const struct literal *want,
                        double tolerance, FILE *out) {
    struct comparison result = compare_arrays(got, want, tolerance);
    if (!result.equal) {
        double used = tolerance < 0 ? compare_default_tolerance(got->shape->type) : tolerance;
        print_mismatch(out, index, got->shape, &result, used);
    }
    return result.equal;
}

/* Compares with the recorded array. `devices`: how many gave the result; where it is the same on
 * all, the record may still hold it once a device. */
static bool check_output(const char *directory, int index, struct hlo_module *module, int devices,
                         const struct literal *got, double tolerance, FILE *out) {
    struct fault fault;
    char *path = text_format("%s/out.%d.npy", directory, index);
    struct literal *want = npy_read(path, got->shape, &fault);
    struct literal *row = !want && devices > 1 ? partitions_repeat(module, got, devices) : NULL;
    if (row) want = npy_read(path, row->shape, &fault);
    if (row) got = row;
    if (!want) fprintf(out, "  %s: %s\n", path, fault.text);
    free(path);
    if (!want) {
        literal_unref(row);
        return false;
    }
    bool equal = check_array(index, got, want, tolerance, out);
    literal_unref(want);
    literal_unref(row);
    return equal;
}

static bool check_outputs(const char *directory, struct hlo_module *module, int devices,
                          const struct literal *result, double tolerance, FILE *out) {
    bool ok = true;
    int count = shape_array_leaves(result->shape);
    for (int i = 0; i < count; i++) {
        const struct literal *leaf = literal_array_leaf(result, i);
        ok = check_output(directory, i, module, devices, leaf, tolerance, out) && ok;
    }
    char *extra = text_format("%s/out.%d.npy", directory, count);
    if (access(extra, F_OK) == 0) {
        fprintf(out, "  %s: the program has only %d results\n", extra, count);
        ok = false;
    }
    free(extra);
    return ok;
}

/* The TPU rounds what it multiplies unless the highest precision is asked for: the records, which
 * are of exact products, say nothing of that, the evaluator does. */
static bool products_are_rounded(const struct target_options *target) {
    return target->kind == TARGET_TPU && target->matmul_precision != ENUM_PRECISION_HIGHEST;
}

static struct literal *evaluate_rounded(const struct hlo_module *module,
                                        const struct target_options *target,
                                        struct literal *const *args, struct diag *diag) {
    struct eval_options options = {.matmul_precision = target->matmul_precision,
                                   .seed = target->seed};
    if (!options.matmul_precision) options.matmul_precision = ENUM_PRECISION_DEFAULT;
    return module_evaluate(module, args, &options, diag);
}

static bool check_evaluated(const struct literal *result, const struct literal *want,
                            double tolerance, FILE *out) {
    bool ok = true;
    int count = shape_array_leaves(result->shape);
    for (int i = 0; i < count; i++)
        ok = check_array(i, literal_array_leaf(result, i), literal_array_leaf(want, i), tolerance,
                         out) &&
             ok;
    return ok;
}

static bool run_module(const char *directory, struct hlo_module *module, struct diag *diag,
                       const struct case_options *options, double tolerance, FILE *out) {
    struct literal **flat =
        read_whole_inputs(directory, module, options->target.partitions, diag, out);
    struct literal **args = flat ? module_arguments(module, flat) : NULL;
    free(flat);
    if (!args) return false;
    int nargs = module->entry->nparameters;
    bool rounded = products_are_rounded(&options->target);
    struct literal *want = rounded ? evaluate_rounded(module, &options->target, args, diag) : NULL;
    struct target_program *program =
        want || !rounded ? target_prepare(module, &options->target, diag) : NULL;
    struct literal *result = program ? target_run(program, args, diag) : NULL;
    bool ok = result && want
                  ? check_evaluated(result, want, tolerance, out)
                  : result && check_outputs(directory, module, options->target.partitions, result,
                                            tolerance, out);
    literal_unref(result);
    literal_unref(want);
    target_free(program);
    literals_free(args, nargs);
    return ok;
}

enum case_verdict case_run(const char *directory, const struct case_options *options, FILE *out) {
    struct case_info info;
    struct fault fault;
    if (!case_read_info(directory, &info, &fault)) {
        fprintf(out, "  %s/case.json: %s\n", directory, fault.text);
        return CASE_FAILED;
    }
    bool runs = info.partitions == 1 || options->target.kind == TARGET_INTERP;
    if (!(info.targets >> options->target.kind & 1) || !runs) {
        fprintf(out, runs ? "  its case.json does not list this target\n"
                          : "  it needs several devices: --target=interp\n");
        return CASE_SKIPPED;
    }
    struct case_options own = *options;
    own.target.partitions = (int)info.partitions;
    char *path = text_format("%s/%s", directory, options->program);
    struct bytes text;
    bool ok = file_read(path, &text, &fault), skipped = false;
    if (ok) {
        struct diag diag;
        diag_init(&diag, path, (const char *)text.data, text.size);
        struct hlo_module *module = hlo_parse(&diag);
        skipped = module && module_has_elided(module); /* no result could be right */
        if (skipped) fprintf(out, "  its text leaves constants out, {...}\n");
        ok = module && (skipped || run_module(directory, module, &diag, &own, info.tolerance, out));
        if (!ok) diag_print(&diag, out, false);
        module_free(module);
        diag_clear(&diag);
        free(text.data);
    } else {
        fprintf(out, "  %s: %s\n", path, fault.text);
    }
    free(path);
    if (skipped) return CASE_SKIPPED;
    return ok ? CASE_PASSED : CASE_FAILED;
}
