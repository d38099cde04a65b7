#include "compiler/symbol.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/io.h"

bool symbol_is_name(const char *text) {
    if (!isalpha((unsigned char)*text) && *text != '_') return false;
    for (; *text; text++) {
        if (!isalnum((unsigned char)*text) && *text != '_') return false;
    }
    return true;
}

static bool has_symbol(const char *library, const char *name) {
    void *handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
    bool found = handle && dlsym(handle, name);
    if (handle) dlclose(handle);
    return found;
}

bool symbol_is_taken(const char *name) {
    static const char words[] =
        " alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl "
        "const constexpr continue decltype default delete do double else enum explicit export "
        "extern false float for friend goto if inline int long main mutable namespace new noexcept "
        "not not_eq nullptr operator or or_eq private protected public register requires restrict "
        "return short signed sizeof static static_assert struct switch template this thread_local "
        "throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t "
        "while xor xor_eq ";
    static const char prefix[] = "hlocc_rt_";
    char *word = text_format(" %s ", name);
    bool found = strstr(words, word) || strncmp(name, prefix, sizeof prefix - 1) == 0 ||
                 has_symbol("libc.so.6", name) || has_symbol("libm.so.6", name);
    free(word);
    return found;
}
