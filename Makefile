# hlocc: everything is built out of tree, in build/ (build/sanitize/ with SANITIZE=1).
#   make            the compiler build/hlocc and the runtime library build/libhlocc_rt.a
#   make demo       compile a small CNN to an object, link it into a C program, run that
#   make check      unit tests, golden tests, recorded cases;  make check-long adds slower ones
#   make check-threads      tests of several threads, under the thread sanitizer
#   make update-golden      expected outputs of golden tests written anew, with the diff to read
#   make docs       pages written from the program's tables: docs/coverage.md
#   make bench      against XLA:CPU, into docs/performance.md; BENCH_PYTHON=a Python with jax
#   make install    PREFIX=/usr/local DESTDIR= LIBDIR=PREFIX/lib;  make deb: a Debian package
#   make deps       what is missing from Debian's packages: installed by root, else named

VERSION := 0.1.0
PREFIX ?= /usr/local
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
B := build$(if $(SANITIZE),/$(if $(filter thread,$(SANITIZE)),thread,sanitize))

CC := gcc
# V=1 shows the commands.
Q := $(if $(V),,@)
AR := ar
WARN := -Wall -Wextra -Werror
OPT := -O2 -g
ifdef SANITIZE
SANITIZERS := address,undefined -fno-sanitize-recover=undefined
OPT := -O1 -g -fno-omit-frame-pointer -fsanitize=$(if $(filter thread,$(SANITIZE)),thread,$(SANITIZERS))
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
# Kernels of products that are made here rather than in each program, where it is the processor's.
ifeq ($(SANITIZE),)
ifneq ($(filter x86_64-%linux-gnu x86_64-%linux-musl,$(shell $(CC) -dumpmachine)),)
CPPFLAGS += -DHLOCC_PRODUCT_KERNELS
PRODUCT_KERNELS := $(patsubst %,$(B)/obj/runtime/cpu/product_kernels_%.o,v3 v4)
endif
endif
TESTS := $(TEST_SRCS:%.c=$(B)/test/%)
# Vectors are passed between functions of these files only: how does not matter.
VECTOR_FILES := fft_f32 fft_f64 secular spectrum_f32 spectrum_f64 linalg_f32 linalg_f64 linalg_c64 linalg_c128
$(VECTOR_FILES:%=$(B)/obj/runtime/cpu/%.o): CFLAGS += -Wno-psabi
# The grammar's names have a prefix of their own; the scanner's skeleton asks for the plain ones.
$(LEX:%.l=$(B)/obj/gen/%.o): GEN_DEFS := -DYYSTYPE=HLO_YYSTYPE -DYYLTYPE=HLO_YYLTYPE
GEN_HEADERS := $(YACC:%.y=$(B)/gen/%.h) $(LEX:%.l=$(B)/gen/%.h)

.PHONY: all demo update-golden check check-long check-threads docs install deb clean deps tests
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

$(B)/hlocc: $(B)/obj/compiler/main.o $(B)/libhlocc.a $(B)/libhlocc_rt.a
	@echo "  LINK  $@"
	$(Q)$(CC) $(CFLAGS) -no-pie -o $@ $< $(B)/libhlocc.a $(B)/libhlocc_rt.a $(LLVM_LIBS) -lcjson -lm -lpthread

$(B)/libhlocc.a: $(LIB_OBJS)
	@rm -f $@
	@echo "  AR    $@"
	$(Q)$(AR) rcs $@ $^
$(B)/libhlocc_rt.a: $(RT_OBJS) $(PRODUCT_KERNELS)
	@rm -f $@
	@echo "  AR    $@"
	$(Q)$(AR) rcs $@ $^

$(B)/product_kernels: backend/cpu/generate/product_kernels.c $(B)/obj/backend/cpu/matmul_kernel.o \
    $(B)/obj/backend/cpu/matmul_ir.o | $(B)/libhlocc.a
	@echo "  LINK  $@"
	$(Q)$(CC) $(CPPFLAGS) $(LLVM_CFLAGS) $(CFLAGS) -o $@ $< $(B)/libhlocc.a $(LLVM_LIBS) -lcjson -lm \
	    -lpthread
$(PRODUCT_KERNELS): $(B)/obj/runtime/cpu/product_kernels_%.o: $(B)/product_kernels
	@mkdir -p $(@D)
	@echo "  MAKE  $@"
	$(Q)$< x86-64-$* hlocc_rt_product_kernels_$* $@

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
	$(Q)$(CC) $(CFLAGS) -o $@ $< $(B)/libhlocc.a $(B)/libhlocc_rt.a $(LLVM_LIBS) -lcjson -lcmocka -lm \
	    -lpthread
# Files that become part of an object as they are.
$(B)/obj/runtime/tpu/chip.o: $(wildcard runtime/tpu/chips/*.json)

tests: $(TESTS)

# build/bench/products TYPE M N K times one product as emitted.
$(B)/bench/%: testdata/bench/%.c $(B)/libhlocc.a $(B)/libhlocc_rt.a
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	$(Q)$(CC) $(CPPFLAGS) $(LLVM_CFLAGS) $(CFLAGS) -o $@ $^ $(LLVM_LIBS) -lcjson -lm -lpthread

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

# Pages that are written from what the program says of itself.
docs: all
	JOBS=$(JOBS) python3 testdata/tools/coverage.py $(B)/hlocc docs/coverage.md

# Programs compiled and run on several threads at once, under the thread sanitizer.
THREAD_TESTS := compiler/hlocc_test runtime/cpu/thread_pool_test
check-threads:
	$(Q)$(MAKE) --no-print-directory SANITIZE=thread $(THREAD_TESTS:%=build/thread/test/%)
	$(Q)set -e; for t in $(THREAD_TESTS); do TSAN_OPTIONS=halt_on_error=1 build/thread/test/$$t; done

# ---- what is installed ----

SO_VERSION := 0
# Everything in one library: LLVM too, where its libraries are static.
$(B)/libhlocc.so.$(SO_VERSION): $(B)/libhlocc.a $(B)/libhlocc_rt.a runtime/libhlocc.map
	@echo "  LINK  $@"
	$(Q)$(CC) $(CFLAGS) -shared -o $@ -Wl,-soname,$(@F) -Wl,--gc-sections -s \
	    -Wl,--version-script=runtime/libhlocc.map \
	    -Wl,--whole-archive $(B)/libhlocc.a $(B)/libhlocc_rt.a -Wl,--no-whole-archive \
	    $(LLVM_LIBS) -lcjson -lm -lpthread
$(B)/hlocc.1: testdata/tools/manual.py $(B)/hlocc
	@echo "  MAN   $@"
	$(Q)python3 $< man $(B)/hlocc > $@
$(B)/hlocc.bash: testdata/tools/manual.py $(B)/hlocc
	@echo "  BASH  $@"
	$(Q)python3 $< bash $(B)/hlocc > $@

LIBDIR ?= $(PREFIX)/lib
TO := $(DESTDIR)$(PREFIX)
INSTALLED := $(B)/hlocc $(B)/libhlocc.a $(B)/libhlocc_rt.a $(B)/libhlocc.so.$(SO_VERSION) \
    $(B)/hlocc.1 $(B)/hlocc.bash
# $(call pc,NAME,DESCRIPTION,LIBS,PRIVATE LIBS,DIRECTORY OF HEADERS)
define pc
	@echo "  PC    $(LIBDIR)/pkgconfig/$(1).pc"
	@printf '%s\n' 'prefix=$(PREFIX)' 'libdir=$(LIBDIR)' 'includedir=$${prefix}/include' '' \
	    'Name: $(1)' 'Description: $(2)' 'Version: $(VERSION)' 'Cflags: -I$${includedir}$(5)' \
	    'Libs: -L$${libdir} $(3)' 'Libs.private: $(4)' > $(DESTDIR)$(LIBDIR)/pkgconfig/$(1).pc
endef

install: $(INSTALLED)
	install -d $(TO)/bin $(DESTDIR)$(LIBDIR)/pkgconfig $(TO)/include/hlocc/runtime/tpu \
	    $(TO)/share/man/man1 $(TO)/share/bash-completion/completions $(TO)/share/doc/hlocc
	install -m 755 $(B)/hlocc $(TO)/bin/hlocc
	install -m 644 $(B)/libhlocc_rt.a $(B)/libhlocc.a $(B)/libhlocc.so.$(SO_VERSION) \
	    $(DESTDIR)$(LIBDIR)/
	ln -sf libhlocc.so.$(SO_VERSION) $(DESTDIR)$(LIBDIR)/libhlocc.so
	install -m 644 compiler/hlocc.h runtime/cpu/custom_call.h $(TO)/include/hlocc/
	install -m 644 $(addprefix runtime/tpu/,tpu.h program.h isa.h isa.def chip.h chip.def) \
	    $(TO)/include/hlocc/runtime/tpu/
	install -m 644 $(B)/hlocc.1 $(TO)/share/man/man1/
	install -m 644 $(B)/hlocc.bash $(TO)/share/bash-completion/completions/hlocc
	install -m 644 README.md LICENSE docs/*.md $(TO)/share/doc/hlocc/
	$(call pc,hlocc,ahead-of-time compiler for HLO as a library,-lhlocc,-lhlocc_rt $(LLVM_LIBS) -lcjson -lm -lpthread)
	$(call pc,hlocc_rt,what programs compiled by hlocc link,-lhlocc_rt -lm -lpthread)
	$(call pc,hlocc_tpu,loads and runs TPU program files,-lhlocc_rt -lcjson -lm -lpthread,,/hlocc)

# A Debian package of the same, under /usr.
DEB_ARCH = $(shell dpkg --print-architecture)
deb: $(INSTALLED)
	@rm -rf $(B)/deb
	@$(MAKE) --no-print-directory install PREFIX=/usr LIBDIR=/usr/lib DESTDIR=$(B)/deb > /dev/null
	@gzip -9n $(B)/deb/usr/share/man/man1/hlocc.1
	@mkdir -p $(B)/deb/DEBIAN
	@sh testdata/tools/debcontrol.sh $(VERSION) $(DEB_ARCH) $(B)/deb > $(B)/deb/DEBIAN/control
	dpkg-deb --root-owner-group --build $(B)/deb $(B)/hlocc_$(VERSION)_$(DEB_ARCH).deb

BENCH_PYTHON ?= python3
.PHONY: bench
bench: all
	$(BENCH_PYTHON) testdata/tools/bench.py $(B)/hlocc testdata/bench docs/performance.md

clean:
	rm -rf build

-include $(LIB_OBJS:.o=.d) $(RT_OBJS:.o=.d) $(TEST_SRCS:%.c=$(B)/obj/%.d) $(B)/obj/compiler/main.d
.SECONDARY:
