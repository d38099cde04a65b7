/* { ... }: one bundle. Numbers and scalar registers that do not name their immediate or port get
 * one once all slots are read, those that fit in few places first. */
#include <string.h>

#include "backend/tpu/asm_internal.h"

enum want_kind { WANT_OPERAND, WANT_OFFSET, WANT_STRIDE, WANT_AMOUNT, WANT_BASE, WANT_TARGET };
struct want {
    enum want_kind kind;
    enum tpu_slot slot;
    bool port;      /* a scalar register; else a number, or */
    bool label;     /* one that is not known yet */
    uint32_t value; /* the register's number, or the number */
};
enum { MAX_WANTS = 32 };

struct reader {
    struct assembler *as;
    struct tpu_bundle *bundle;
    uint32_t number;
    enum tpu_slot slot;
    unsigned imms, ports; /* taken */
    unsigned labels;      /* immediates that become a label's number, so that nothing shares them */
    int wants;
    struct want want[MAX_WANTS];
    struct tpu_instr *in;
    const struct tpu_op_info *info;
    bool first; /* no operand yet */
};

static bool next_operand(struct reader *r) {
    if (r->first) {
        r->first = false;
        return true;
    }
    return asm_expect(r->as, ',');
}

static bool add_want(struct reader *r, enum want_kind kind, bool port, uint32_t value) {
    if (r->wants == MAX_WANTS) return asm_error(r->as, "too many operands");
    r->want[r->wants++] = (struct want){kind, r->slot, port, false, value};
    return true;
}

/* A register of the file, such as v12. */
static bool read_register(struct reader *r, char file, int count, uint8_t *number) {
    struct assembler *as = r->as;
    int64_t value;
    asm_blanks(as);
    if (as->at + 1 >= as->end || *as->at != file || as->at[1] < '0' || as->at[1] > '9') {
        return asm_error(as, "a register %c0 to %c%d expected", file, file, count - 1);
    }
    as->at++;
    if (!asm_integer(as, 0, count - 1, &value)) return false;
    *number = (uint8_t)value;
    return true;
}

static bool take_imm(struct reader *r, int imm, uint32_t value) {
    if (r->imms >> imm & 1 && (r->bundle->imm[imm] != (uint16_t)value || r->labels >> imm & 1)) {
        return asm_error(r->as, "immediate %d is taken by another value", imm);
    }
    r->imms |= 1u << imm;
    r->bundle->imm[imm] = (uint16_t)value;
    return true;
}

static bool take_port(struct reader *r, int port, uint32_t reg) {
    if (r->ports >> port & 1 && r->bundle->port[port] != reg) {
        return asm_error(r->as, "port %d is taken by another register", port);
    }
    r->ports |= 1u << port;
    r->bundle->port[port] = (uint8_t)reg;
    return true;
}

/* What a named place gives: an operand code without the value. */
enum place { PLACE_IMM, PLACE_HIGH, PLACE_PAIR, PLACE_PORT };
struct named {
    enum place place;
    int index;
};

static bool read_target(struct reader *r, uint32_t *target, bool *is_label) {
    struct assembler *as = r->as;
    asm_blanks(as);
    *is_label = !(as->at < as->end && *as->at >= '0' && *as->at <= '9');
    if (!*is_label) return asm_number(as, target);
    struct src_loc loc = asm_loc(as);
    const char *label = asm_word(as);
    if (!label) return asm_error(as, "a label or the number of a bundle expected");
    as->fixup =
        arena_grow(as->arena, as->fixup, &as->fixup_capacity, as->fixups + 1, sizeof *as->fixup);
    as->fixup[as->fixups++] = (struct asm_fixup){label, r->number, loc};
    *target = 0;
    return true;
}

/* #2(5), #2h(0x3f80), #1w(70000), $0(s5) */
static bool read_named(struct reader *r, bool target, struct named *named) {
    struct assembler *as = r->as;
    bool port = *as->at++ == '$';
    uint32_t value;
    uint8_t reg;
    bool high = false, pair = false, label = false;
    int most = port ? TPU_PORTS - 1 : TPU_IMMS - 1;
    int index = as->at < as->end ? *as->at - '0' : -1;
    if (index < 0 || index > most) return asm_error(as, "a number from 0 to %d expected", most);
    as->at++;
    named->index = index;
    if (!port && asm_accept(as, 'h')) high = true;
    if (!port && !high && asm_accept(as, 'w')) pair = true;
    if (pair && index >= TPU_IMMS / 2) return asm_error(as, "pairs are 0 to 2");
    if (!asm_expect(as, '(')) return false;
    named->place = port ? PLACE_PORT : high ? PLACE_HIGH : pair ? PLACE_PAIR : PLACE_IMM;
    if (port) {
        if (!read_register(r, 's', TPU_SREGS, &reg) || !take_port(r, index, reg)) return false;
        return asm_expect(as, ')');
    }
    if (!(target ? read_target(r, &value, &label) : asm_number(as, &value))) return false;
    unsigned taken = pair ? 3u << 2 * index : 1u << index;
    if (label && r->imms & taken) return asm_error(as, "a label cannot share its immediate");
    if (pair) {
        if (!take_imm(r, 2 * index, value) || !take_imm(r, 2 * index + 1, value >> 16)) {
            return false;
        }
        if (label) r->labels |= taken;
        return asm_expect(as, ')');
    }
    bool fits = target || high ? value <= 0xffff : (int32_t)value == (int16_t)value;
    if (!fits) return asm_error(as, "the number does not fit in 16 bits");
    if (!take_imm(r, index, value)) return false;
    if (label) r->labels |= taken;
    return asm_expect(as, ')');
}

static bool is_named(struct reader *r) {
    return asm_peek(r->as, '#') || asm_peek(r->as, '$');
}

static bool at_register(struct reader *r, char file) {
    struct assembler *as = r->as;
    return asm_peek(as, file) && as->at + 1 < as->end && as->at[1] >= '0' && as->at[1] <= '9';
}

static bool wrong_place(struct reader *r) {
    return asm_error(r->as, "this operand cannot come from there");
}

static bool read_operand(struct reader *r) {
    bool scalar = r->info->slot == TPU_CLASS_SCALAR;
    static const uint8_t codes[] = {
        [PLACE_IMM] = TPU_OPERAND_IMM,
        [PLACE_HIGH] = TPU_OPERAND_HIGH,
        [PLACE_PAIR] = TPU_OPERAND_PAIR,
        [PLACE_PORT] = TPU_OPERAND_PORT,
    };
    struct named named;
    uint32_t value;
    if (is_named(r)) {
        if (!read_named(r, false, &named)) return false;
        r->in->b = (uint8_t)(codes[named.place] + named.index);
        return true;
    }
    if (at_register(r, scalar ? 's' : 'v')) {
        return read_register(r, scalar ? 's' : 'v', TPU_SREGS, &r->in->b);
    }
    if (at_register(r, 's')) {
        uint8_t reg;
        return read_register(r, 's', TPU_SREGS, &reg) && add_want(r, WANT_OPERAND, true, reg);
    }
    if (!asm_number(r->as, &value)) return false;
    int code = tpu_constant_code(value);
    if (code < 0) return add_want(r, WANT_OPERAND, false, value);
    r->in->b = (uint8_t)code;
    return true;
}

static bool read_field(struct reader *r, enum tpu_kind kind, uint8_t *field) {
    static const struct {
        char file;
        int count;
    } files[] = {
        [TPU_KIND_WS] = {'s', TPU_SREGS},  [TPU_KIND_RS] = {'s', TPU_SREGS},
        [TPU_KIND_RWS] = {'s', TPU_SREGS}, [TPU_KIND_S] = {'s', TPU_SREGS},
        [TPU_KIND_WP] = {'p', TPU_PREDS},  [TPU_KIND_P] = {'p', TPU_PREDS},
        [TPU_KIND_WV] = {'v', TPU_VREGS},  [TPU_KIND_RV] = {'v', TPU_VREGS},
        [TPU_KIND_V] = {'v', TPU_VREGS},   [TPU_KIND_WM] = {'m', TPU_MASKS},
        [TPU_KIND_M] = {'m', TPU_MASKS},   [TPU_KIND_F] = {'f', TPU_FLAGS},
    };
    int64_t value;
    if (kind == TPU_KIND__) return true;
    if (!next_operand(r)) return false;
    if (kind == TPU_KIND_O) return read_operand(r);
    if (kind != TPU_KIND_N) return read_register(r, files[kind].file, files[kind].count, field);
    if (!asm_integer(r->as, 0, 31, &value)) return false;
    *field = (uint8_t)value;
    return true;
}

/* ---- addresses, amounts, targets, flags ---- */

static bool read_base(struct reader *r) {
    struct named named;
    uint8_t reg;
    uint32_t value;
    if (is_named(r)) {
        if (!read_named(r, false, &named)) return false;
        if (named.place != PLACE_PORT) return wrong_place(r);
        r->in->base = (uint8_t)(TPU_BASE_PORT + named.index);
        return true;
    }
    if (at_register(r, 's')) {
        return read_register(r, 's', TPU_SREGS, &reg) && add_want(r, WANT_BASE, true, reg);
    }
    if (!asm_number(r->as, &value)) return false;
    if (value) return asm_error(r->as, "a base is 0 or a scalar register");
    r->in->base = TPU_BASE_ZERO;
    return true;
}

static bool read_offset(struct reader *r) {
    struct named named;
    uint32_t value;
    if (is_named(r)) {
        if (!read_named(r, false, &named)) return false;
        bool pair = named.place == PLACE_PAIR && named.index == 0;
        if (named.place != PLACE_IMM && !pair) return wrong_place(r);
        r->in->offset = (uint8_t)(pair ? TPU_OFFSET_PAIR : TPU_OFFSET_IMM + named.index);
        return true;
    }
    if (!asm_number(r->as, &value)) return false;
    r->in->offset = TPU_OFFSET_ZERO;
    return !value || add_want(r, WANT_OFFSET, false, value);
}

static bool read_stride(struct reader *r) {
    struct named named;
    uint32_t value;
    uint8_t reg;
    if (is_named(r)) {
        if (!read_named(r, false, &named)) return false;
        bool port = named.place == PLACE_PORT && named.index == 2;
        if (!port && (named.place != PLACE_IMM || named.index != 5)) return wrong_place(r);
        r->in->stride = port ? TPU_STRIDE_PORT2 : TPU_STRIDE_IMM5;
        return true;
    }
    if (at_register(r, 's')) {
        return read_register(r, 's', TPU_SREGS, &reg) && add_want(r, WANT_STRIDE, true, reg);
    }
    if (!asm_number(r->as, &value)) return false;
    if (value > 1) return add_want(r, WANT_STRIDE, false, value);
    r->in->stride = value ? TPU_STRIDE_1 : TPU_STRIDE_0;
    return true;
}

static bool read_amount(struct reader *r) {
    struct named named;
    uint32_t value;
    uint8_t reg;
    if (is_named(r)) {
        if (!read_named(r, false, &named)) return false;
        bool port = named.place == PLACE_PORT && named.index > 0;
        if (!port && named.place != PLACE_IMM) return wrong_place(r);
        r->in->imm =
            (uint8_t)(port ? TPU_AMOUNT_PORT1 + named.index - 1 : TPU_AMOUNT_IMM + named.index);
        return true;
    }
    if (at_register(r, 's')) {
        return read_register(r, 's', TPU_SREGS, &reg) && add_want(r, WANT_AMOUNT, true, reg);
    }
    return asm_number(r->as, &value) && add_want(r, WANT_AMOUNT, false, value);
}

static bool read_branch(struct reader *r) {
    struct named named;
    uint32_t value;
    if (!asm_peek(r->as, '#')) {
        bool label;
        if (!read_target(r, &value, &label) || !add_want(r, WANT_TARGET, false, value))
            return false;
        r->want[r->wants - 1].label = label;
        return true;
    }
    if (!read_named(r, true, &named)) return false;
    bool pair = named.place == PLACE_PAIR && named.index < 2;
    if (named.place != PLACE_IMM && !pair) return wrong_place(r);
    r->in->imm = (uint8_t)(pair ? TPU_TARGET_PAIR0 + named.index : TPU_TARGET_IMM + named.index);
    return true;
}

static bool read_flags(struct reader *r) {
    static const struct {
        const char *word;
        enum tpu_effect effect;
        uint8_t flag;
    } words[] = {
        {"cross", TPU_EFFECT_MXU_PUSH, TPU_FLAG_CROSS},
        {"start", TPU_EFFECT_MXU_WEIGHT, TPU_FLAG_START},
        {"transpose", TPU_EFFECT_MXU_WEIGHT, TPU_FLAG_TRANSPOSE},
        {"set0", TPU_EFFECT_NONE, 0},
        {"set1", TPU_EFFECT_NONE, TPU_FLAG_SET},
    };
    while (asm_accept(r->as, ',')) {
        const char *word = asm_word(r->as);
        size_t i = 0;
        for (; i < 5 && word; i++) {
            bool mine = words[i].effect == TPU_EFFECT_NONE || words[i].effect == r->info->effect;
            if (mine && strcmp(words[i].word, word) == 0) break;
        }
        if (i == 5 || !word) return asm_error(r->as, "not a flag of %s", r->info->name);
        r->in->flags |= words[i].flag;
    }
    return true;
}

/* ---- instructions ---- */

static bool read_pred(struct reader *r) {
    uint8_t number;
    r->in->pred = TPU_ALWAYS;
    if (!asm_accept(r->as, '(')) return true;
    bool not = asm_accept(r->as, '!');
    if (!read_register(r, 'p', TPU_PREDS, &number)) return false;
    if (!number) return asm_error(r->as, "p0 always holds");
    r->in->pred = (uint8_t)(not? TPU_ALWAYS + number : number);
    return asm_expect(r->as, ')');
}

static bool read_operands(struct reader *r) {
    bool push = r->info->slot == TPU_CLASS_PUSH;
    bool memory = r->info->slot == TPU_CLASS_LOAD || r->info->slot == TPU_CLASS_STORE;
    r->first = true;
    if (push || r->info->effect == TPU_EFFECT_MXU_POP) {
        if (!next_operand(r) || !read_register(r, 'u', TPU_MAX_UNITS, &r->in->unit)) return false;
    }
    if (!read_field(r, r->info->dest, &r->in->dest) || !read_field(r, r->info->a, &r->in->a) ||
        !read_field(r, r->info->b, &r->in->b)) {
        return false;
    }
    if (memory && !(next_operand(r) && read_base(r) && next_operand(r) && read_offset(r) &&
                    next_operand(r) && read_stride(r))) {
        return false;
    }
    if (push && !read_flags(r)) return false;
    if (r->info->imm != TPU_IMM__) {
        if (!next_operand(r)) return false;
        if (!(r->info->imm == TPU_IMM_AMOUNT ? read_amount(r) : read_branch(r))) return false;
    }
    if (!asm_accept(r->as, '?')) return true;
    if (r->info->mask == TPU_MASK__) return asm_error(r->as, "%s takes no mask", r->info->name);
    return read_register(r, 'm', TPU_MASKS, &r->in->mask);
}

/* The slot that is named, or the first free one of the class. */
static bool choose_slot(struct reader *r, const char *slot_name, enum tpu_slot_class class) {
    for (enum tpu_slot slot = TPU_S0; slot < TPU_SLOTS; ++slot) {
        if (tpu_slot_class(slot) != class) continue;
        if (slot_name ? strcmp(tpu_slot_name(slot), slot_name) != 0
                      : r->bundle->slot[slot].op != TPU_EMPTY) {
            continue;
        }
        if (r->bundle->slot[slot].op != TPU_EMPTY) break;
        r->slot = slot;
        return true;
    }
    return asm_error(r->as, "no free slot for this instruction");
}

static bool read_instr(struct reader *r) {
    struct assembler *as = r->as;
    struct tpu_instr instr = {0};
    const char *start, *slot_name = NULL, *word;
    r->in = &instr;
    asm_blanks(as);
    start = as->at;
    word = asm_word(as);
    if (word && asm_accept(as, ':')) {
        slot_name = word;
    } else {
        as->at = start;
    }
    if (!read_pred(r)) return false;
    asm_blanks(as);
    start = as->at;
    word = asm_word(as);
    enum tpu_op op = word ? tpu_op_from_name(word, strlen(word)) : TPU_EMPTY;
    const char *after = as->at;
    as->at = start; /* errors point at the mnemonic */
    if (op == TPU_EMPTY) return asm_error(as, "an instruction expected");
    instr.op = (uint8_t)op;
    r->info = tpu_op_info(op);
    if (!choose_slot(r, slot_name, r->info->slot)) return false;
    as->at = after;
    if (!read_operands(r)) return false;
    r->bundle->slot[r->slot] = instr;
    return true;
}

/* ---- places for what names none ---- */

static int find_port(const struct reader *r, uint32_t reg, unsigned allowed) {
    for (int i = 0; i < TPU_PORTS; i++) {
        if (allowed >> i & 1 && r->ports >> i & 1 && r->bundle->port[i] == reg) return i;
    }
    for (int i = TPU_PORTS - 1; i >= 0; i--) {
        if (allowed >> i & 1 && !(r->ports >> i & 1)) return i;
    }
    return -1;
}

static int find_imm(const struct reader *r, uint16_t value, unsigned allowed) {
    for (int i = 0; i < TPU_IMMS; i++) {
        if ((allowed & r->imms & ~r->labels) >> i & 1 && r->bundle->imm[i] == value) return i;
    }
    for (int i = 0; i < TPU_IMMS; i++) {
        if (allowed >> i & 1 && !(r->imms >> i & 1)) return i;
    }
    return -1;
}

static int find_pair(const struct reader *r, uint32_t value, unsigned allowed) {
    for (int i = 0; i < TPU_IMMS / 2; i++) {
        bool low = !(r->imms >> 2 * i & 1) || r->bundle->imm[2 * i] == (uint16_t)value;
        bool high = !(r->imms >> (2 * i + 1) & 1) || r->bundle->imm[2 * i + 1] == value >> 16;
        if (allowed >> i & 1 && low && high) return i;
    }
    return -1;
}

static bool place_port(struct reader *r, const struct want *want) {
    struct tpu_instr *in = &r->bundle->slot[want->slot];
    unsigned allowed = want->kind == WANT_STRIDE ? 4 : want->kind == WANT_AMOUNT ? 6 : 7;
    int port = find_port(r, want->value, allowed);
    if (port < 0) return asm_error(r->as, "the bundle has no port left for s%u", want->value);
    if (want->kind == WANT_STRIDE) in->stride = TPU_STRIDE_PORT2;
    if (want->kind == WANT_AMOUNT) in->imm = (uint8_t)(TPU_AMOUNT_PORT1 + port - 1);
    if (want->kind == WANT_BASE) in->base = (uint8_t)(TPU_BASE_PORT + port);
    if (want->kind == WANT_OPERAND) in->b = (uint8_t)(TPU_OPERAND_PORT + port);
    return take_port(r, port, want->value);
}

static bool place_number(struct reader *r, const struct want *want) {
    struct tpu_instr *in = &r->bundle->slot[want->slot];
    uint32_t value = want->value;
    bool narrow = want->kind == WANT_TARGET ? value <= 0xffff : (int32_t)value == (int16_t)value;
    bool high = want->kind == WANT_OPERAND && !narrow && (value & 0xffff) == 0;
    uint16_t half = (uint16_t)(high ? value >> 16 : value);
    unsigned allowed = want->kind == WANT_STRIDE ? 1u << 5 : want->label ? 63 & ~r->imms : 63;
    int at = narrow || high ? find_imm(r, half, allowed) : -1;
    if (at >= 0) {
        if (want->kind == WANT_STRIDE) in->stride = TPU_STRIDE_IMM5;
        if (want->kind == WANT_OFFSET) in->offset = (uint8_t)(TPU_OFFSET_IMM + at);
        if (want->kind == WANT_AMOUNT || want->kind == WANT_TARGET) in->imm = (uint8_t)at;
        if (want->kind == WANT_OPERAND) {
            in->b = (uint8_t)((high ? TPU_OPERAND_HIGH : TPU_OPERAND_IMM) + at);
        }
        return take_imm(r, at, half);
    }
    unsigned pairs = want->kind == WANT_OPERAND  ? 7
                     : want->kind == WANT_TARGET ? 3
                     : want->kind == WANT_OFFSET ? 1
                                                 : 0;
    at = find_pair(r, value, pairs);
    if (at < 0) return asm_error(r->as, "the bundle has no immediate left for %d", (int)value);
    if (want->kind == WANT_OFFSET) in->offset = TPU_OFFSET_PAIR;
    if (want->kind == WANT_TARGET) in->imm = (uint8_t)(TPU_TARGET_PAIR0 + at);
    if (want->kind == WANT_OPERAND) in->b = (uint8_t)(TPU_OPERAND_PAIR + at);
    return take_imm(r, 2 * at, value) && take_imm(r, 2 * at + 1, value >> 16);
}

/* Fewer places first: lower is sooner. A label's number is not known yet and shares nothing. */
static int urgency(const struct want *want) {
    if (want->kind == WANT_STRIDE) return 0;
    if (want->label) return 5;
    if (want->port) return want->kind == WANT_AMOUNT ? 1 : 2;
    bool narrow = (int32_t)want->value == (int16_t)want->value || (want->value & 0xffff) == 0;
    if (want->kind == WANT_OFFSET && !narrow) return 1;
    return narrow ? 4 : 3;
}

static bool place_wants(struct reader *r) {
    for (int level = 0; level <= 5; level++) {
        for (int i = 0; i < r->wants; i++) {
            const struct want *want = &r->want[i];
            if (urgency(want) != level) continue;
            if (!(want->port ? place_port(r, want) : place_number(r, want))) return false;
        }
    }
    return true;
}

bool asm_set_target(struct assembler *as, struct tpu_bundle *bundle, uint32_t target) {
    const struct tpu_instr *in = &bundle->slot[TPU_MISC];
    if (in->imm < TPU_IMMS) {
        if (target > 0xffff)
            return asm_error(as, "the label is past bundle 65535: give #0w(LABEL)");
        bundle->imm[in->imm] = (uint16_t)target;
        return true;
    }
    int pair = in->imm - TPU_TARGET_PAIR0;
    bundle->imm[2 * pair] = (uint16_t)target;
    bundle->imm[2 * pair + 1] = (uint16_t)(target >> 16);
    return true;
}

bool asm_bundle(struct assembler *as, struct tpu_bundle *bundle, uint32_t number) {
    struct reader r = {.as = as, .bundle = bundle, .number = number};
    enum tpu_slot slot;
    memset(bundle, 0, sizeof *bundle);
    if (!asm_expect(as, '{')) return false;
    if (asm_accept(as, '}')) return true;
    do {
        if (!read_instr(&r)) return false;
    } while (asm_accept(as, ';'));
    if (!asm_expect(as, '}') || !place_wants(&r)) return false;
    const char *why = tpu_bundle_check(bundle, &slot);
    return !why || asm_error(as, "%s", why);
}
