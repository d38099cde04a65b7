#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "backend/tpu/asm_internal.h"

/* ---- instructions ---- */

struct printer {
    FILE *out;
    const struct tpu_bundle *bundle;
    const char *separator;
};

static void next_operand(struct printer *p) {
    fputs(p->separator, p->out);
    p->separator = ", ";
}

static int16_t extended(const struct printer *p, int imm) {
    return (int16_t)p->bundle->imm[imm];
}

static void print_imm(struct printer *p, int imm) {
    fprintf(p->out, "#%d(%d)", imm, extended(p, imm));
}

static void print_port(struct printer *p, int port) {
    fprintf(p->out, "$%d(s%d)", port, p->bundle->port[port]);
}

static void print_pair(struct printer *p, int pair) {
    fprintf(p->out, "#%dw(0x%x)", pair, tpu_bundle_pair(p->bundle, pair));
}

static void print_constant(FILE *out, uint32_t value) {
    fprintf(out, value <= 0xffff || value == UINT32_MAX ? "%d" : "0x%x", (int)value);
}

static void print_coded(struct printer *p, int code, char file) {
    if (code < TPU_OPERAND_IMM) {
        fprintf(p->out, "%c%d", file, code);
    } else if (code < TPU_OPERAND_HIGH) {
        print_imm(p, code - TPU_OPERAND_IMM);
    } else if (code < TPU_OPERAND_PAIR) {
        int imm = code - TPU_OPERAND_HIGH;
        fprintf(p->out, "#%dh(0x%x)", imm, p->bundle->imm[imm]);
    } else if (code < TPU_OPERAND_PORT) {
        print_pair(p, code - TPU_OPERAND_PAIR);
    } else if (code < TPU_OPERAND_CONST) {
        print_port(p, code - TPU_OPERAND_PORT);
    } else {
        print_constant(p->out, tpu_constants[code - TPU_OPERAND_CONST]);
    }
}

static void print_field(struct printer *p, enum tpu_kind kind, int value, char file) {
    static const char letters[] = {
        [TPU_KIND_WS] = 's', [TPU_KIND_RS] = 's', [TPU_KIND_RWS] = 's', [TPU_KIND_S] = 's',
        [TPU_KIND_WP] = 'p', [TPU_KIND_P] = 'p',  [TPU_KIND_WV] = 'v',  [TPU_KIND_RV] = 'v',
        [TPU_KIND_V] = 'v',  [TPU_KIND_WM] = 'm', [TPU_KIND_M] = 'm',   [TPU_KIND_F] = 'f',
    };
    if (kind == TPU_KIND__) return;
    next_operand(p);
    if (kind == TPU_KIND_O) {
        print_coded(p, value, file);
    } else if (kind == TPU_KIND_N) {
        fprintf(p->out, "%d", value);
    } else {
        fprintf(p->out, "%c%d", letters[kind], value);
    }
}

static void print_address(struct printer *p, const struct tpu_instr *in) {
    next_operand(p);
    if (in->base == TPU_BASE_ZERO) {
        fputc('0', p->out);
    } else {
        print_port(p, in->base - TPU_BASE_PORT);
    }
    next_operand(p);
    if (in->offset < TPU_OFFSET_ZERO) {
        print_imm(p, in->offset);
    } else if (in->offset == TPU_OFFSET_ZERO) {
        fputc('0', p->out);
    } else {
        print_pair(p, 0);
    }
    next_operand(p);
    switch (in->stride) {
    case TPU_STRIDE_1: fputc('1', p->out); break;
    case TPU_STRIDE_0: fputc('0', p->out); break;
    case TPU_STRIDE_IMM5: print_imm(p, 5); break;
    default: print_port(p, 2);
    }
}

static void print_flags(struct printer *p, const struct tpu_instr *in, bool weights) {
    next_operand(p);
    fprintf(p->out, "set%d", in->flags & TPU_FLAG_SET);
    if (in->flags & 2) fputs(weights ? ", start" : ", cross", p->out);
    if (in->flags & TPU_FLAG_TRANSPOSE) fputs(", transpose", p->out);
}

static void print_imm_use(struct printer *p, const struct tpu_instr *in, enum tpu_imm_use use) {
    if (use == TPU_IMM__) return;
    next_operand(p);
    if (use == TPU_IMM_AMOUNT) {
        if (in->imm < TPU_IMMS) {
            print_imm(p, in->imm);
        } else {
            print_port(p, in->imm == TPU_AMOUNT_PORT1 ? 1 : 2);
        }
        return;
    }
    uint32_t target = tpu_branch_target(p->bundle, in);
    if (in->imm < TPU_IMMS) {
        fprintf(p->out, "#%d(L%u)", in->imm, target);
    } else {
        fprintf(p->out, "#%dw(L%u)", in->imm - TPU_TARGET_PAIR0, target);
    }
}

static void print_instr(struct printer *p, const struct tpu_instr *in) {
    const struct tpu_op_info *info = tpu_op_info((enum tpu_op)in->op);
    char file = info->slot == TPU_CLASS_SCALAR ? 's' : 'v';
    if (in->pred != TPU_ALWAYS) {
        fprintf(p->out, "(%sp%d) ", in->pred > TPU_ALWAYS ? "!" : "", in->pred & 3);
    }
    fputs(info->name, p->out);
    p->separator = " ";
    if (info->slot == TPU_CLASS_PUSH || info->effect == TPU_EFFECT_MXU_POP) {
        next_operand(p);
        fprintf(p->out, "u%d", in->unit);
    }
    print_field(p, info->dest, in->dest, file);
    print_field(p, info->a, in->a, file);
    print_field(p, info->b, in->b, file);
    if (info->slot == TPU_CLASS_LOAD || info->slot == TPU_CLASS_STORE) print_address(p, in);
    if (info->slot == TPU_CLASS_PUSH) {
        print_flags(p, in, info->effect == TPU_EFFECT_MXU_WEIGHT);
    }
    print_imm_use(p, in, info->imm);
    if (in->mask) fprintf(p->out, " ?m%d", in->mask);
}

void tpu_print_bundle(const struct tpu_bundle *bundle, FILE *out) {
    struct printer p = {.out = out, .bundle = bundle};
    const char *separator = "{ ";
    for (int s = 0; s < TPU_SLOTS; s++) {
        const struct tpu_instr *in = &bundle->slot[s];
        if (in->op == TPU_EMPTY) continue;
        fputs(separator, out);
        separator = " ; ";
        bool second = s == TPU_S1 || s == TPU_V1;
        if (second && bundle->slot[s - 1].op == TPU_EMPTY) {
            fprintf(out, "%s: ", tpu_slot_name((enum tpu_slot)s));
        }
        print_instr(&p, in);
    }
    fputs(separator[0] == '{' ? "{}" : " }", out);
}

/* ---- the rest of a program ---- */

static void print_escaped(FILE *out, const char *text) {
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\') {
            fprintf(out, "\\%c", c);
        } else if (c < ' ' || c == 127) {
            fprintf(out, "\\x%02x", c);
        } else {
            fputc(c, out);
        }
    }
}

static void print_string(FILE *out, const char *text) {
    fputs(" \"", out);
    print_escaped(out, text);
    fputc('"', out);
}

static void print_array(FILE *out, const char *what, const struct tpu_array *a) {
    fprintf(out, ".%s \"%s\" %d %d %d %d dims", what, a->type, a->host_bytes, a->bits, a->planes,
            a->is_signed);
    for (int i = 0; i < a->rank; i++)
        fprintf(out, "%s%lld", i ? "," : " ", (long long)a->dims[i]);
    fputs(" order", out);
    for (int i = 0; i < a->rank; i++)
        fprintf(out, "%s%d", i ? "," : " ", a->minor_to_major[i]);
    fputs(" tiles ", out);
    for (int t = 0; t < a->ntiles; t++) {
        for (int i = 0; i < a->tiles[t].rank; i++)
            fprintf(out, "%s%lld", i ? "," : "(", (long long)a->tiles[t].dims[i]);
        fputc(')', out);
    }
    fprintf(out, " at 0x%llx\n", (unsigned long long)a->address);
}

/* Zeros are many: a line of their own says how many. */
static void print_data(const uint8_t *data, uint64_t size, FILE *out) {
    for (uint64_t k = 0; k < size;) {
        uint64_t zeros = 0, end = k;
        while (zeros < ASM_MOST_ZEROS && k + zeros < size && !data[k + zeros])
            zeros++;
        if (zeros >= 32) {
            fprintf(out, ".zero %llu\n", (unsigned long long)zeros);
            k += zeros;
            continue;
        }
        fputs(".data ", out);
        while (end < size && end < k + 32)
            fprintf(out, "%02x", data[end++]);
        fputc('\n', out);
        k = end;
    }
}

static void print_constants(const struct tpu_program *p, FILE *out) {
    for (uint32_t i = 0; i < p->smem_words; i += 8) {
        fprintf(out, ".smem %u", i);
        for (uint32_t k = i; k < p->smem_words && k < i + 8; k++)
            fprintf(out, " 0x%x", p->smem[k]);
        fputc('\n', out);
    }
    for (uint32_t i = 0; i < p->constants; i++) {
        const struct tpu_constant *c = &p->constant[i];
        fprintf(out, ".constant 0x%llx %llu\n", (unsigned long long)c->address,
                (unsigned long long)c->size);
        print_data(c->data, c->size, out);
    }
}

static void print_tables(const struct tpu_program *p, FILE *out) {
    static const char *const spaces[TPU_SPACES] = {"hbm", "vmem", "smem"};
    for (uint32_t i = 0; i < p->params; i++)
        print_array(out, "param", &p->param[i]);
    for (uint32_t i = 0; i < p->results; i++)
        print_array(out, "result", &p->result[i]);
    for (uint32_t i = 0; i < p->buffers; i++) {
        const struct tpu_buffer *b = &p->buffer[i];
        fputs(".buffer", out);
        print_string(out, b->name);
        fprintf(out, " %s 0x%llx %llu\n", spaces[b->space], (unsigned long long)b->address,
                (unsigned long long)b->size);
    }
    for (uint32_t i = 0; i < p->sources; i++) {
        const struct tpu_source *s = &p->source[i];
        fputs(".source", out);
        print_string(out, s->name);
        print_string(out, s->op_name);
        print_string(out, s->file);
        fprintf(out, " %u\n", s->line);
    }
}

static void print_code(const struct tpu_program *p, FILE *out) {
    uint8_t *target = calloc(p->bundles, 1);
    uint32_t line = 0;
    fputs(".code\n", out);
    for (uint32_t i = 0; i < p->bundles && target; i++) {
        const struct tpu_instr *in = &p->code[i].slot[TPU_MISC];
        if (tpu_op_info((enum tpu_op)in->op)->imm == TPU_IMM_TARGET) {
            target[tpu_branch_target(&p->code[i], in)] = 1;
        }
    }
    for (uint32_t i = 0; i < p->bundles; i++) {
        if (line < p->lines && p->line[line].bundle == i) {
            uint32_t source = p->line[line++].source;
            fprintf(out, ".line %u ; ", source);
            print_escaped(out, p->source[source].name);
            fputc('\n', out);
        }
        if (!target || target[i]) fprintf(out, "L%u:\n", i);
        fputs("  ", out);
        tpu_print_bundle(&p->code[i], out);
        fputc('\n', out);
    }
    free(target);
}

void tpu_disassemble(const struct tpu_program *program, FILE *out) {
    char *chip = tpu_chip_print(&program->chip);
    fprintf(out, ".chip %s\n", chip ? chip : "");
    free(chip);
    fprintf(out, ".cores %u\n.hbm %llu\n.vmem %llu\n", program->cores,
            (unsigned long long)program->hbm_bytes, (unsigned long long)program->vmem_bytes);
    print_constants(program, out);
    print_tables(program, out);
    print_code(program, out);
}
