/* The compiler as a library, in C and in C++: parses a program, runs it, and compiles it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hlocc/hlocc.h>

static const char text[] = "ENTRY e {\n"
                           "  x = f32[4] parameter(0)\n"
                           "  y = f32[4] sort(x), dimensions={0}, to_apply={\n"
                           "    a = f32[] parameter(0)\n"
                           "    b = f32[] parameter(1)\n"
                           "    ROOT c = pred[] compare(a, b), direction=LT\n"
                           "  }\n"
                           "  ROOT z = f32[4] add(y, y)\n"
                           "}\n";

int main(void) {
    char *messages = NULL;
    struct hlocc_program *program = hlocc_parse("e.hlo", text, strlen(text), &messages);
    if (!program || hlocc_prepare(program, HLOCC_CPU, &messages) != 0) {
        fputs(messages ? messages : "no memory\n", stderr);
        return 1;
    }
    float x[4] = {3, 1, 4, 1.5f}, z[4];
    const void *inputs[] = {x};
    void *outputs[] = {z};
    if (hlocc_run(program, inputs, outputs, NULL) != 0) return 1;
    printf("%g %g %g %g\n", z[0], z[1], z[2], z[3]);
    struct hlocc_options options;
    hlocc_options_init(&options);
    void *data;
    size_t size;
    if (hlocc_compile(program, "sorted", HLOCC_OBJECT, &options, &data, &size, &messages) != 0) {
        fputs(messages, stderr);
        return 1;
    }
    printf("%s\n", memcmp(data, "\177ELF", 4) == 0 ? "an object" : "?");
    free(data);
    hlocc_free(program);
    if (hlocc_parse("bad.hlo", "ENTRY e { ROOT x = f32[] add(y) }", 33, &messages)) return 1;
    fputs(messages, stdout);
    free(messages);
    return 0;
}
