#include <errno.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler/case.h"
#include "compiler/cli.h"

static const char usage[] =
    "usage: hlocc test PATH... [OPTIONS]\n"
    "Runs every case (a folder with module.hlo, in.K.npy, out.K.npy, case.json) at or below the\n"
    "paths and compares the results. Ends with \"N passed, N failed\".\n"
    "  --target=cpu|tpu|interp  what runs them\n"
    "  -j N                     cases at once (1)\n"
    "  --filter=GLOB            only cases whose path or last part matches\n"
    "  --program=NAME           the program in each folder (module.hlo)\n"
    "  --timeout=SECONDS        for one case (600)\n"
    "  --passes=A,B,C  --disable-pass=A  --verify    what runs before, for interp too\n"
    "  --library=FILE.so        C functions for custom calls, by their targets' names\n"
    "  --cache-dir=DIR          keep native code here, and take it from here\n"
    "  --threads=N  --mcpu=NAME  -O0..-O3  --seed=N  --matmul-precision=...\n";

enum { OPT_FILTER = OPT_OWN, OPT_PROGRAM, OPT_TIMEOUT };

static const struct option options[] = {COMMON_TARGET_OPTIONS,
                                        COMMON_PASS_OPTIONS,
                                        COMMON_CACHE_OPTION,
                                        COMMON_HELP_OPTION,
                                        {"filter", required_argument, NULL, OPT_FILTER},
                                        {"program", required_argument, NULL, OPT_PROGRAM},
                                        {"timeout", required_argument, NULL, OPT_TIMEOUT},
                                        {"jobs", required_argument, NULL, 'j'},
                                        {0}};

struct test_options {
    struct common_options common;
    const char *filter, *program;
    int jobs, timeout;
};

/* One case runs in a process of its own: a crash there is that case's failure. */
struct worker {
    pid_t pid; /* 0: idle */
    const char *path;
    FILE *messages;
};

struct tally {
    int passed, failed, skipped, done, total;
    bool progress; /* a line that is overwritten, on terminals only */
};

static int read_option(struct test_options *o, int code) {
    int64_t number = 0;
    switch (code) {
    case OPT_FILTER: o->filter = optarg; return -1;
    case OPT_PROGRAM: o->program = optarg; return -1;
    case OPT_TIMEOUT:
    case 'j':
        if (!parse_number(optarg, 1, 100000, &number)) {
            return usage_error("%s takes a number from 1, not '%s'",
                               code == 'j' ? "-j" : "--timeout", optarg);
        }
        *(code == 'j' ? &o->jobs : &o->timeout) = (int)number;
        return -1;
    default: return common_option(&o->common, code, usage);
    }
}

static void show_progress(const struct tally *tally, const char *path) {
    if (!tally->progress) return;
    fprintf(stderr, "\r\033[K[%d/%d] %s", tally->done, tally->total, path ? path : "");
    if (!path) fprintf(stderr, "\r\033[K");
    fflush(stderr);
}

static bool start(struct worker *worker, const struct test_options *o, const char *path) {
    worker->messages = tmpfile();
    if (!worker->messages) return false;
    worker->path = path;
    fflush(stdout);
    fflush(stderr);
    worker->pid = fork();
    if (worker->pid > 0) return true;
    if (worker->pid < 0) {
        fclose(worker->messages);
        worker->pid = 0;
        return false;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a case must not outlive an interrupted run */
    alarm((unsigned)o->timeout);
    setvbuf(worker->messages, NULL, _IOLBF, 0);
    struct case_options options = {.target = o->common.target, .program = o->program};
    enum case_verdict verdict = case_run(path, &options, worker->messages);
    fflush(worker->messages);
    _exit((int)verdict);
}

static void copy_messages(FILE *from) {
    char buffer[4096];
    size_t n;
    rewind(from);
    while ((n = fread(buffer, 1, sizeof buffer, from)) > 0)
        fwrite(buffer, 1, n, stdout);
}

static void finish(struct worker *worker, int status, struct tally *tally) {
    int verdict = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    tally->done++;
    if (verdict == CASE_PASSED) {
        tally->passed++;
    } else if (verdict == CASE_SKIPPED) {
        tally->skipped++;
        show_progress(tally, NULL);
        printf("skipped %s\n", worker->path);
        copy_messages(worker->messages);
    } else {
        tally->failed++;
        show_progress(tally, NULL);
        printf("FAILED %s\n", worker->path);
        copy_messages(worker->messages);
        if (WIFSIGNALED(status)) {
            int signal = WTERMSIG(status);
            printf("  %s\n", signal == SIGALRM ? "ran out of time" : strsignal(signal));
        } else if (verdict != CASE_FAILED) {
            printf("  ended with status %d\n", verdict);
        }
    }
    fclose(worker->messages);
    memset(worker, 0, sizeof *worker);
}

/* Waits for one worker to end; false where none runs. */
static bool wait_one(struct worker *workers, int count, struct tally *tally) {
    for (;;) {
        int status;
        pid_t pid = waitpid(-1, &status, 0);
        if (pid < 0 && errno == EINTR) continue;
        if (pid < 0) return false;
        for (int i = 0; i < count; i++) {
            if (workers[i].pid != pid) continue;
            finish(&workers[i], status, tally);
            return true;
        }
    }
}

static struct worker *idle_worker(struct worker *workers, int count) {
    for (int i = 0; i < count; i++) {
        if (!workers[i].pid) return &workers[i];
    }
    return NULL;
}

static bool run_cases(const struct test_options *o, const struct case_list *list,
                      struct tally *tally) {
    struct worker *workers = calloc((size_t)o->jobs, sizeof *workers);
    bool ok = workers != NULL;
    for (int i = 0; ok && i < list->count; i++) {
        struct worker *worker;
        while (!(worker = idle_worker(workers, o->jobs)))
            wait_one(workers, o->jobs, tally);
        show_progress(tally, list->paths[i]);
        ok = start(worker, o, list->paths[i]);
        if (!ok) fprintf(stderr, "hlocc: error: no process for a case: %s\n", strerror(errno));
    }
    while (workers && wait_one(workers, o->jobs, tally))
        continue;
    show_progress(tally, NULL);
    free(workers);
    return ok;
}

static void apply_filter(struct case_list *list, const char *filter) {
    int kept = 0;
    for (int i = 0; i < list->count; i++) {
        const char *slash = strrchr(list->paths[i], '/');
        const char *last = slash ? slash + 1 : list->paths[i];
        bool match =
            !filter || fnmatch(filter, list->paths[i], 0) == 0 || fnmatch(filter, last, 0) == 0;
        if (match) {
            list->paths[kept++] = list->paths[i];
        } else {
            free(list->paths[i]);
        }
    }
    list->count = kept;
}

int cmd_test(int argc, char **argv) {
    struct test_options o = {.program = "module.hlo", .jobs = 1, .timeout = 600};
    common_init(&o.common);
    int code;
    while ((code = getopt_long(argc, argv, "j:O:", options, NULL)) >= 0) {
        int status = read_option(&o, code);
        if (status >= 0) return status;
    }
    if (optind == argc) return usage_error("test: which cases?");
    int machine = common_machine(&o.common);
    if (machine >= 0) return machine;
    struct case_list list = {0};
    struct fault fault;
    bool ok = true;
    for (int i = optind; i < argc; i++) {
        int before = list.count;
        bool found = case_find(&list, argv[i], o.program, &fault);
        if (found && list.count == before) {
            found = fault_set(&fault, "%s: no case at or below it", argv[i]);
        }
        if (!found) fprintf(stderr, "hlocc: error: %s\n", fault.text);
        ok = ok && found;
    }
    apply_filter(&list, o.filter);
    if (ok && list.count == 0) {
        fprintf(stderr, "hlocc: error: no case matches --filter=%s\n", o.filter);
        ok = false;
    }
    case_list_sort(&list);
    struct tally tally = {.total = list.count, .progress = isatty(STDERR_FILENO)};
    ok = run_cases(&o, &list, &tally) && ok;
    case_list_free(&list);
    printf("%d passed, %d failed", tally.passed, tally.failed);
    if (tally.skipped) printf(", %d skipped", tally.skipped);
    printf("\n");
    return ok && tally.failed == 0 ? EXIT_DONE : EXIT_INPUT;
}
