/* The threads of a partitioned evaluation, and where they meet. */
#include "ir/eval_mesh.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* One execution of an instruction by a group. Members stay in step within a group, so that an
 * instruction and its group's first device name at most one open slot. */
struct slot {
    const struct hlo_instr *instr;
    int first, count, operands;
    int arrived, left;
    struct literal **values; /* copies: their owners may change theirs in place */
    struct slot *next;
};

struct eval_mesh {
    int size;
    bool replicas;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int running; /* devices that neither wait nor have ended */
    bool failed;
    struct slot *slots;
};

int eval_mesh_size(const struct eval_mesh *mesh) {
    return mesh->size;
}

bool eval_mesh_of_replicas(const struct eval_mesh *mesh) {
    return mesh->replicas;
}

/* ---- under the mutex ---- */

static void fail(struct eval_mesh *mesh) {
    mesh->failed = true;
    pthread_cond_broadcast(&mesh->changed);
}

static void slot_free(struct slot *slot) {
    for (int i = 0; slot->values && i < slot->count * slot->operands; i++)
        literal_unref(slot->values[i]);
    free(slot->values);
    free(slot);
}

static struct slot *open_slot(struct eval_mesh *mesh, const struct hlo_instr *instr, int first,
                              int count) {
    for (struct slot *slot = mesh->slots; slot; slot = slot->next)
        if (slot->instr == instr && slot->first == first && slot->arrived < slot->count)
            return slot;
    struct slot *slot = calloc(1, sizeof *slot);
    size_t values = (size_t)count * (size_t)instr->noperands;
    if (!slot) return NULL;
    *slot = (struct slot){.instr = instr,
                          .first = first,
                          .count = count,
                          .operands = instr->noperands,
                          .values = calloc(values + 1, sizeof *slot->values),
                          .next = mesh->slots};
    if (!slot->values) {
        free(slot);
        return NULL;
    }
    mesh->slots = slot;
    return slot;
}

static bool bring(struct slot *slot, int rank, struct literal *const *ops) {
    for (int k = 0; k < slot->operands; k++) {
        struct literal **value = &slot->values[rank * slot->operands + k];
        *value = literal_copy(ops[k]);
        if (!*value) return false;
    }
    return true;
}

/* The last to arrive wakes the others, and counts them as running again. */
static void wait_for_all(struct eval_mesh *mesh, struct slot *slot) {
    if (++slot->arrived == slot->count) {
        mesh->running += slot->count - 1;
        pthread_cond_broadcast(&mesh->changed);
        return;
    }
    if (--mesh->running == 0) fail(mesh); /* everybody waits for somebody else */
    while (slot->arrived < slot->count && !mesh->failed)
        pthread_cond_wait(&mesh->changed, &mesh->mutex);
}

bool eval_mesh_meet(struct eval *e, const struct hlo_instr *instr, int count, const int *members,
                    struct literal *const *ops, struct meeting *meeting) {
    struct eval_mesh *mesh = e->mesh;
    int rank = 0;
    while (rank + 1 < count && members[rank] != e->device)
        rank++;
    pthread_mutex_lock(&mesh->mutex);
    struct slot *slot = mesh->failed ? NULL : open_slot(mesh, instr, members[0], count);
    bool good = slot && bring(slot, rank, ops);
    if (good) {
        wait_for_all(mesh, slot);
        good = slot->arrived == slot->count;
    } else {
        fail(mesh);
    }
    pthread_mutex_unlock(&mesh->mutex);
    *meeting = (struct meeting){count, rank, good ? slot->values : NULL, slot};
    if (!good)
        eval_error(e, instr, "device %d waits for others that ended, or wait for others again",
                   e->device);
    return good;
}

void eval_mesh_leave(struct eval *e, struct meeting *meeting) {
    struct eval_mesh *mesh = e->mesh;
    struct slot *slot = meeting->slot;
    pthread_mutex_lock(&mesh->mutex);
    if (++slot->left == slot->count) {
        struct slot **at = &mesh->slots;
        while (*at != slot)
            at = &(*at)->next;
        *at = slot->next;
        slot_free(slot);
    }
    pthread_mutex_unlock(&mesh->mutex);
}

/* ---- devices ---- */

struct device {
    pthread_t thread;
    struct eval_mesh *mesh;
    int number;
    const struct hlo_module *module;
    const struct eval_options *options;
    struct literal *const *args;
    struct literal *result;
    struct diag diag;
};

static void *run_device(void *data) {
    struct device *device = data;
    struct eval_mesh *mesh = device->mesh;
    device->result = eval_entry(device->module->entry, device->args, device->options, &device->diag,
                                mesh, device->number);
    pthread_mutex_lock(&mesh->mutex);
    if (--mesh->running == 0 || !device->result) fail(mesh);
    pthread_mutex_unlock(&mesh->mutex);
    return NULL;
}

/* The device that failed by itself says why; those that waited for it say only that. */
static void report(struct device *devices, int count, struct diag *diag) {
    const struct diag *best = NULL;
    for (int i = 0; i < count; i++) {
        const struct diag *said = &devices[i].diag;
        if (!said->count) continue;
        bool waits = strstr(said->messages[0].text, " waits for others ") != NULL;
        if (!best || !waits) best = said;
        if (!waits) break;
    }
    for (int i = 0; best && i < best->count; i++) {
        const struct diag_message *m = &best->messages[i];
        if (m->severity == DIAG_ERROR)
            diag_error(diag, m->loc, "%s", m->text);
        else
            diag_note(diag, m->loc, "%s", m->text);
    }
}

static int start_devices(struct device *devices, int count) {
    for (int i = 0; i < count; i++)
        if (pthread_create(&devices[i].thread, NULL, run_device, &devices[i]) != 0) return i;
    return count;
}

bool module_evaluate_devices(const struct hlo_module *module, int count,
                             struct literal *const *const *args, const struct eval_options *options,
                             struct literal **results, struct diag *diag) {
    struct eval_mesh mesh = {
        .size = count, .replicas = module->replica_count == count, .running = count};
    struct device *devices = calloc((size_t)count, sizeof *devices);
    pthread_mutex_init(&mesh.mutex, NULL);
    pthread_cond_init(&mesh.changed, NULL);
    bool good = devices != NULL;
    for (int i = 0; good && i < count; i++) {
        devices[i] = (struct device){
            .mesh = &mesh, .number = i, .module = module, .options = options, .args = args[i]};
        diag_init(&devices[i].diag, diag->file, diag->source, diag->source_size);
    }
    int started = good ? start_devices(devices, count) : 0;
    if (started < count) {
        diag_error(diag, (struct src_loc){0}, "no thread for each of %d devices", count);
        good = false;
        pthread_mutex_lock(&mesh.mutex);
        fail(&mesh);
        pthread_mutex_unlock(&mesh.mutex);
    }
    for (int i = 0; i < started; i++)
        pthread_join(devices[i].thread, NULL);
    for (int i = 0; i < started; i++)
        good = good && devices[i].result;
    if (devices && !good) report(devices, started, diag);
    for (int i = 0; i < started; i++) {
        results[i] = good ? devices[i].result : NULL;
        if (!good) literal_unref(devices[i].result);
        diag_clear(&devices[i].diag);
    }
    while (mesh.slots) {
        struct slot *slot = mesh.slots;
        mesh.slots = slot->next;
        slot_free(slot);
    }
    pthread_cond_destroy(&mesh.changed);
    pthread_mutex_destroy(&mesh.mutex);
    free(devices);
    return good;
}
