#include "compiler/link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler/header.h"

/* libhlocc_rt.a beside this program, or in ../lib of where it is installed; malloc memory. */
static char *runtime_library(void) {
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0) return text_format("libhlocc_rt.a");
    self[n] = 0;
    char *slash = strrchr(self, '/');
    if (slash) *slash = 0;
    char *beside = text_format("%s/libhlocc_rt.a", self);
    if (access(beside, R_OK) == 0) return beside;
    free(beside);
    return text_format("%s/../lib/libhlocc_rt.a", self);
}

static bool run_cc(char *const *arguments, struct fault *fault) {
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0) return fault_set(fault, "no process for the linker: %s", strerror(errno));
    if (pid == 0) {
        execvp(arguments[0], arguments);
        fprintf(stderr, "hlocc: %s: %s\n", arguments[0], strerror(errno));
        _exit(127);
    }
    int status;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return status == 0 || fault_set(fault, "the linker (cc) failed");
}

static bool write_driver(const struct hlo_module *module, const char *directory, const char *symbol,
                         struct fault *fault) {
    char *driver = text_format("%s/main.c", directory);
    struct output output;
    bool ok = output_open(&output, driver, fault);
    if (ok) {
        driver_write(output.stream, module, symbol);
        ok = output_commit(&output, fault);
    }
    free(driver);
    return ok;
}

static void remove_directory(const char *directory) {
    static const char *const names[] = {"program.o", "main.c", "program"};
    for (int i = 0; i < 3; i++) {
        char *path = text_format("%s/%s", directory, names[i]);
        unlink(path);
        free(path);
    }
    rmdir(directory);
}

static bool run_linker(const char *directory, bool shared, const char *library,
                       struct fault *fault) {
    char *made = text_format("%s/program", directory);
    char *object = text_format("%s/program.o", directory);
    char *driver = text_format("%s/main.c", directory);
    char *runtime = runtime_library();
    char *arguments[16] = {"cc", shared ? "-shared" : "-O1", "-o", made};
    int n = 4;
    /* What is used stands before what provides it. */
    if (!shared) arguments[n++] = driver;
    arguments[n++] = object;
    if (library) arguments[n++] = (char *)library;
    arguments[n++] = runtime;
    arguments[n++] = "-lm";
    arguments[n++] = "-lpthread";
    bool ok = run_cc(arguments, fault);
    free(made);
    free(object);
    free(driver);
    free(runtime);
    return ok;
}

bool link_object(const struct hlo_module *module, bool shared, const struct bytes *object,
                 const char *symbol, const char *library, struct bytes *linked,
                 struct fault *fault) {
    const char *temporary = getenv("TMPDIR");
    char *directory = text_format("%s/hlocc.XXXXXX", temporary ? temporary : "/tmp");
    if (!mkdtemp(directory)) {
        fault_set(fault, "%s cannot be made: %s", directory, strerror(errno));
        free(directory);
        return false;
    }
    char *path = text_format("%s/program.o", directory);
    char *made = text_format("%s/program", directory);
    bool ok = file_write(path, object->data, object->size, fault) &&
              (shared || write_driver(module, directory, symbol, fault)) &&
              run_linker(directory, shared, library, fault) && file_read(made, linked, fault);
    remove_directory(directory);
    free(path);
    free(made);
    free(directory);
    return ok;
}
