# hlocc: everything is built out of tree, in build/ (build/sanitize/ with SANITIZE=1).
#   make            the compiler build/hlocc and the runtime library build/libhlocc_rt.a
#   make demo       compile a small CNN to an object, link it into a C program, run that
#   make check      unit tests, golden tests, recorded cases;  make check-long adds slower ones
#   make update-golden      expected outputs of golden tests written anew, with the diff to read
#   make bench      against XLA:CPU, into docs/performance.md; BENCH_PYTHON=a Python with jax
#   make install    PREFIX=/usr/local DESTDIR=
#   make deps       what is missing from Debian's packages: installed by root, else named

VERSION := 0.1.0
PREFIX ?= /usr/local
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
B := build$(if $(SANITIZE),/sanitize)

CC := gcc
# V=1 shows the commands.
Q := $(if $(V),,@)
AR := ar
WARN := -Wall -Wextra -Werror
OPT := -O2 -g
ifdef SANITIZE
OPT := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined
# Sanitizers change what the compiler can see, and so its guesses.
WARN += -Wno-error
endif
CPPFLAGS += -I. -I$(B)/gen -D_GNU_SOURCE -DHLOCC_VERSION='"$(VERSION)"'
CFLAGS := -std=gnu11 $(OPT) $(WARN) -fPIC -pthread $(EXTRA_CFLAGS)

DIRS := ir passes backend/cpu backend/tpu compiler
RT_DIRS := runtime/cpu runtime/tpu
SRCS := $(filter-out %_test.c,$(foreach d,$(DIRS),$(wildcard $(d)/*.c)))
LIB_SRCS := $(filter-out compiler/main.c,$(SRCS))
RT_SRCS := $(filter-out %_test.c,$(foreach d,$(RT_DIRS),$(wildcard $(d)/*.c)))
TEST_SRCS := $(foreach d,$(DIRS) $(RT_DIRS),$(wildcard $(d)/*_test.c))
LEX := $(wildcard ir/*.l)
YACC := $(wildcard ir/*.y)
GEN_OBJS := $(LEX:%.l=$(B)/obj/gen/%.o) $(YACC:%.y=$(B)/obj/gen/%.o)
LIB_OBJS := $(LIB_SRCS:%.c=$(B)/obj/%.o) $(GEN_OBJS)
RT_OBJS := $(RT_SRCS:%.c=$(B)/obj/%.o)
TESTS := $(TEST_SRCS:%.c=$(B)/test/%)
# The grammar's names have a prefix of their own; the scanner's skeleton asks for the plain ones.
$(LEX:%.l=$(B)/obj/gen/%.o): GEN_DEFS := -DYYSTYPE=HLO_YYSTYPE -DYYLTYPE=HLO_YYLTYPE
GEN_HEADERS := $(YACC:%.y=$(B)/gen/%.h) $(LEX:%.l=$(B)/gen/%.h)

.PHONY: all demo update-golden check check-long install clean deps tests
.DELETE_ON_ERROR:
all: $(B)/hlocc $(B)/libhlocc_rt.a

# Made once: installs or names missing packages, then asks LLVM for its flags. Make reads it again
# after writing it, so that a fresh machine needs one command.
ifeq ($(filter clean deps,$(MAKECMDGOALS)),)
-include build/config.mk
endif
build/config.mk: testdata/tools/deps.sh
	@mkdir -p $(@D)
	@sh testdata/tools/deps.sh config > $@.tmp && mv $@.tmp $@
deps:
	@sh testdata/tools/deps.sh install

# The whole runtime, where code that is compiled later finds it.
RT_FOR_JIT := -Wl,--whole-archive $(B)/libhlocc_rt.a -Wl,--no-whole-archive \
    -Wl,--export-dynamic-symbol='hlocc_rt_*'

$(B)/hlocc: $(B)/obj/compiler/main.o $(B)/libhlocc.a $(B)/libhlocc_rt.a
	@echo "  LINK  $@"
	$(Q)$(CC) $(CFLAGS) -o $@ $< $(B)/libhlocc.a $(RT_FOR_JIT) $(LLVM_LIBS) -lcjson -lm -lpthread

$(B)/libhlocc.a: $(LIB_OBJS)
	@rm -f $@
	@echo "  AR    $@"
	$(Q)$(AR) rcs $@ $^
$(B)/libhlocc_rt.a: $(RT_OBJS)
	@rm -f $@
	@echo "  AR    $@"
	$(Q)$(AR) rcs $@ $^

$(B)/obj/%.o: %.c | $(GEN_HEADERS)
	@mkdir -p $(@D)
	@echo "  CC    $<"
	$(Q)$(CC) $(CPPFLAGS) $(LLVM_CFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<
$(B)/obj/gen/%.o: $(B)/gen/%.c | $(GEN_HEADERS)
	@mkdir -p $(@D)
	@echo "  CC    $<"
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -Wno-error -Wno-unused-function -Wno-unused-parameter \
	    -Wno-unused-but-set-variable -Wno-sign-compare $(GEN_DEFS) -MMD -MP -c -o $@ $<
$(B)/gen/%.c $(B)/gen/%.h: %.y
	@mkdir -p $(@D)
	@echo "  BISON $<"
	$(Q)bison -Wno-yacc --defines=$(B)/gen/$*.h -o $(B)/gen/$*.c $<
$(B)/gen/%.c $(B)/gen/%.h: %.l
	@mkdir -p $(@D)
	@echo "  FLEX  $<"
	$(Q)flex --header-file=$(B)/gen/$*.h -o $(B)/gen/$*.c $<

$(B)/test/%: $(B)/obj/%.o $(B)/libhlocc.a $(B)/libhlocc_rt.a
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	$(Q)$(CC) $(CFLAGS) -o $@ $< $(B)/libhlocc.a $(RT_FOR_JIT) $(LLVM_LIBS) -lcjson -lcmocka -lm \
	    -lpthread
# Files that become part of an object as they are.
$(B)/obj/runtime/tpu/chip.o: $(wildcard runtime/tpu/chips/*.json)

tests: $(TESTS)

demo: all
	@sh testdata/demo/demo.sh $(B)
check: all tests
	@JOBS=$(JOBS) python3 testdata/tools/check.py $(B) $(TESTS)
# Writes the expected outputs of marked golden tests anew and shows the change.
update-golden: all
	@python3 testdata/tools/update_golden.py $(abspath $(B))/hlocc $(wildcard testdata/golden/*.hlo) \
	    $(wildcard testdata/golden/*/*.hlo)
check-long: all tests
	@JOBS=$(JOBS) python3 testdata/tools/check.py --long $(B) $(TESTS)

# Compiled code finds the runtime by name in the program that runs it.
WHOLE_RT := -Wl,--whole-archive -lhlocc_rt -Wl,--no-whole-archive \
    -Wl,--export-dynamic-symbol=hlocc_rt_*

install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/pkgconfig \
	    $(DESTDIR)$(PREFIX)/include/hlocc
	install -m 755 $(B)/hlocc $(DESTDIR)$(PREFIX)/bin/hlocc
	install -m 644 $(B)/libhlocc_rt.a $(B)/libhlocc.a $(DESTDIR)$(PREFIX)/lib/
	install -m 644 compiler/hlocc.h runtime/cpu/custom_call.h $(DESTDIR)$(PREFIX)/include/hlocc/
	install -d $(DESTDIR)$(PREFIX)/include/hlocc/runtime/tpu
	install -m 644 $(addprefix runtime/tpu/,tpu.h program.h isa.h isa.def chip.h chip.def) \
	    $(DESTDIR)$(PREFIX)/include/hlocc/runtime/tpu/
	@echo "  PC    $(PREFIX)/lib/pkgconfig/hlocc.pc"
	@printf '%s\n' 'Name: hlocc' 'Description: ahead-of-time compiler for HLO, as a library' \
	    'Version: $(VERSION)' 'Cflags: -I$(PREFIX)/include' \
	    'Libs: -L$(PREFIX)/lib -lhlocc $(WHOLE_RT) $(LLVM_LIBS) -lcjson -lm -lpthread' \
	    > $(DESTDIR)$(PREFIX)/lib/pkgconfig/hlocc.pc

BENCH_PYTHON ?= python3
.PHONY: bench
bench: all
	$(BENCH_PYTHON) testdata/tools/bench.py $(B)/hlocc testdata/bench docs/performance.md

clean:
	rm -rf build

-include $(LIB_OBJS:.o=.d) $(RT_OBJS:.o=.d) $(TEST_SRCS:%.c=$(B)/obj/%.d) $(B)/obj/compiler/main.d
.SECONDARY:
