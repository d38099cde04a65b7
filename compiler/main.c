#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "compiler/cli.h"

/* A crash is our fault, whatever the input: it says so, and has an exit status of its own. */
static void crashed(int number) {
    static const char text[] =
        "hlocc: internal error: the compiler itself failed, which no input should make it do.\n"
        "Please report it with the command line, the input file and the output of `hlocc "
        "--version`.\n";
    (void)number;
    ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);
    (void)written;
    _exit(EXIT_INTERNAL);
}

/* On a stack of its own, so that an overflown one is reported too. */
static void catch_crashes(void) {
    static char stack[64 * 1024];
    stack_t alternative = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&alternative, NULL);
    struct sigaction action = {.sa_handler = crashed, .sa_flags = SA_ONSTACK};
    static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        sigaction(signals[i], &action, NULL);
    }
}

/* A closed standard stream would be the first file opened: what is printed would go into it. In its
 * place stands one that gives the same errors. */
static void hold_streams(void) {
    static const int modes[] = {O_WRONLY, O_RDONLY, O_WRONLY};
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) < 0) open("/dev/null", modes[fd]);
    }
}

int main(int argc, char **argv) {
#ifndef __SANITIZE_ADDRESS__ /* which reports more */
    catch_crashes();
#endif
    hold_streams();
    return cli_main(argc, argv);
}
